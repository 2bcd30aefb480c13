"use strict";
// What the reader chose: the rule, its settings, filters, order and the run looked at; the address keeps all of it.

const TEXTS = ["method", "skew", "lr", "data", "search", "run"];
const FIRST = {
  rule: "growth",
  settings: { ...RULES.growth.settings },
  sort: "name",
  down: false,
  ...Object.fromEntries(TEXTS.map((key) => [key, ""])),
};
const state = structuredClone(FIRST);
let runs = []; // every run of the page
let written = 0; // the timer that writes the address

const whole = (value) => Math.max(1, Math.round(value));
const SETTINGS = { threshold: (value) => value, patience: whole, rounds: whole };

/** The settings of a rule from text, falling back to its own; nothing that Python would refuse gets through. */
function settingsOf(rule, given) {
  const made = { ...RULES[rule].settings };
  for (const key of Object.keys(made)) {
    const value = Number(given(key));
    if (given(key) && Number.isFinite(value) && value > 0) made[key] = SETTINGS[key](value);
  }
  return made;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, structuredClone(FIRST));
  if (given.get("rule") in RULES) state.rule = given.get("rule");
  state.settings = settingsOf(state.rule, (key) => given.get(key));
  for (const key of TEXTS) state[key] = given.get(key) ?? "";
  state.sort = given.get("sort") ?? FIRST.sort;
  state.down = given.has("down");
}

function address() {
  const made = new URLSearchParams({ rule: state.rule, ...state.settings });
  for (const key of TEXTS) if (state[key]) made.set(key, state[key]);
  if (state.sort !== FIRST.sort) made.set("sort", state.sort);
  if (state.down) made.set("down", "");
  return `#${made}`;
}

/** After a pause: browsers refuse an address that changes with every step of a slider. */
function writeAddress() {
  document.getElementById("link").setAttribute("href", address());
  clearTimeout(written);
  written = setTimeout(() => history.replaceState(null, "", address()), 200);
}

/** A run's configuration as one flat table: its fields and its method's hyperparameters. */
const flat = (run) =>
  run.once("flat", () => {
    const { hyperparameters, ...fields } = run.spec;
    const all = { ...fields, ...(typeof hyperparameters === "object" ? hyperparameters : {}) };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
  });

/** The skew and its coefficient as one word, because one without the other says little. */
function skewOf({ spec }) {
  if (spec.skew === undefined) return "";
  return ["iid", "natural"].includes(spec.skew) ? spec.skew : `${spec.skew} ${spec.c}`;
}

const FIELDS = {
  data: (run) => run.spec.data ?? "",
  method: (run) => run.spec.method ?? "",
  lr: (run) => run.spec.lr ?? "",
  skew: skewOf,
};

const shownRuns = () =>
  runs.filter(
    (run) =>
      Object.entries(FIELDS).every(([key, of]) => !state[key] || String(of(run)) === state[key]) &&
      `${run.name} ${alsoOf(run)}`.toLowerCase().includes(state.search.toLowerCase()),
  );

/** In what the runs of this page differ: fields with a column of their own, then hyperparameters, then the rest. */
let differing = { named: [], also: [] };
function findDiffering() {
  const several = (of, among = runs) =>
    new Set(
      among
        .map(of)
        .filter((value) => value !== undefined)
        .map((value) => JSON.stringify(value)),
    ).size > 1;
  const own = new Set(runs.flatMap((run) => Object.keys(run.spec.hyperparameters ?? {})));
  const fields = new Set(runs.flatMap((run) => Object.keys(run.spec)));
  const rest = [...fields].filter((key) => !["data", "method", "skew", "c", "lr", "hyperparameters"].includes(key));
  const methods = [...new Set(runs.map((run) => run.spec.method))];
  const alike = methods.map((name) => runs.filter((run) => run.spec.method === name));
  const groups = (key) => (own.has(key) ? alike : [runs]); // hyperparameters are compared within a method
  const keys = [...new Set(["seed", ...own, ...rest])];
  differing = {
    named: Object.keys(FIELDS).filter((key) => several(FIELDS[key])),
    also: keys.filter((key) => groups(key).some((among) => several((run) => flat(run)[key], among))),
  };
}
const alsoOf = (run) =>
  differing.also
    .filter((key) => key in flat(run))
    .map((key) => `${key.replaceAll("_", " ")} ${flat(run)[key]}`)
    .join(" ");

/** A run in few words: in what it differs from the others shown, else what was trained, else its name. */
const labelOf = (run) => labels.get(run);
let labels = new Map();

/** Two runs that would be called the same keep their names. */
function nameRuns() {
  findDiffering();
  const words = runs.map(wordsFor);
  const times = new Map();
  for (const one of words) times.set(one, (times.get(one) ?? 0) + 1);
  labels = new Map(runs.map((run, k) => [run, times.get(words[k]) > 1 ? run.name : words[k]]));
}

function wordsFor(run) {
  if (!Object.keys(run.spec).length) return run.name;
  const parts = differing.named.map((key) => (key === "lr" ? `lr ${FIELDS.lr(run)}` : FIELDS[key](run)));
  const differs = [...parts, alsoOf(run)].filter((part) => part !== "").join(" ");
  return differs || (runs.length === 1 ? `${FIELDS.data(run)} ${FIELDS.method(run)}`.trim() : "") || run.name;
}

/** The verdict of the chosen rule. */
const chosen = (run) => run.outcome(judge(run, state.rule, state.settings));

/** A rule as it stands in a table of rules: computed once per run. */
const usualOutcome = (run, rule, settings) =>
  run.once(`way ${text.settings(rule, settings)}`, () => run.outcome(judge(run, rule, settings)));

/** Every rule has a colour, a dash and a shape of its own. */
const COLOURS = Object.fromEntries(Object.keys(RULES).map((name, k) => [name, lookOf(k)]));
