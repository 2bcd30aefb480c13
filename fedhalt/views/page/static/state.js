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
const skewOf = (run) =>
  run.spec.skew === undefined
    ? ""
    : ["iid", "natural"].includes(run.spec.skew)
      ? run.spec.skew
      : `${run.spec.skew} ${run.spec.c}`;

const FIELDS = {
  data: (run) => run.spec.data ?? "",
  method: (run) => run.spec.method ?? "",
  skew: skewOf,
  lr: (run) => run.spec.lr ?? "",
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
  const several = (of) =>
    new Set(
      runs
        .map(of)
        .filter((value) => value !== undefined)
        .map((value) => JSON.stringify(value)),
    ).size > 1;
  const own = new Set(runs.flatMap((run) => Object.keys(run.spec.hyperparameters ?? {})));
  const fields = new Set(runs.flatMap((run) => Object.keys(run.spec)));
  const rest = [...fields].filter((key) => !["data", "method", "skew", "c", "lr", "hyperparameters"].includes(key));
  differing = {
    named: Object.keys(FIELDS).filter((key) => several(FIELDS[key])),
    also: [...own, "seed", ...rest].filter((key, k, all) => all.indexOf(key) === k && several((run) => flat(run)[key])),
  };
}
const alsoOf = (run) =>
  differing.also
    .filter((key) => key in flat(run))
    .map((key) => `${key}=${flat(run)[key]}`)
    .join(" ");

/** A run in few words: its configuration if it has one, else its name. */
function labelOf(run) {
  if (!Object.keys(run.spec).length) return run.name;
  const parts = differing.named.map((key) => (key === "lr" ? `lr=${FIELDS.lr(run)}` : FIELDS[key](run)));
  return [...parts, alsoOf(run)].filter((part) => part !== "").join(" ") || run.name;
}

/** The verdict of the chosen rule. */
const chosen = (run) => run.outcome(judge(run, state.rule, state.settings));

/** A rule as it stands in a table of rules: computed once per run. */
const usualOutcome = (run, rule, settings) =>
  run.once(`way ${text.settings(rule, settings)}`, () => run.outcome(judge(run, rule, settings)));

const COLOURS = Object.fromEntries(
  Object.keys(RULES).map((name, k) => [name, { colour: `k${k % 8}`, dash: DASHES[k % 8] }]),
);
