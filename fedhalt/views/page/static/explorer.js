"use strict";
// The explorer: sliders move the stop of every run at once; tiles, a sentence, dots and a table of rules follow.

const at = (id) => document.getElementById(id);

function buildControls() {
  at("rule").append(...Object.keys(RULES).map((name) => html("option", { value: name }, name)));
  at("rule").addEventListener("change", () => {
    state.rule = at("rule").value;
    state.settings = { ...RULES[state.rule].settings };
    changed();
  });
  for (const key of Object.keys(SETTINGS)) {
    at(`${key}-slide`).addEventListener("input", (event) => {
      const value = Number(event.target.value);
      state.settings[key] = key === "threshold" ? Number((10 ** value).toPrecision(2)) : value;
      changed(event.target);
    });
    at(key).addEventListener("input", (event) => {
      const value = Number(event.target.value);
      const fits = Number.isFinite(value) && value > 0 && (key === "threshold" || Number.isInteger(value));
      event.target.setAttribute("aria-invalid", String(!fits));
      if (!fits) return;
      state.settings[key] = value;
      changed(event.target);
    });
    at(key).addEventListener("change", () => showControls()); // what is no setting goes back to the last one
  }
  at("controls").addEventListener("submit", (event) => event.preventDefault());
}

/** Puts the state into the controls, except the one under the reader's hand. */
function showControls(held = null) {
  at("rule").value = state.rule;
  at("rule-note").textContent = meaningOf(`rule ${state.rule}`).text;
  for (const node of document.querySelectorAll("[data-setting]"))
    node.hidden = !(node.dataset.setting in state.settings);
  at("rounds-slide").max = Math.max(1, ...runs.map((run) => run.last));
  for (const [key, value] of Object.entries(state.settings)) {
    const slide = at(`${key}-slide`);
    if (slide !== held) slide.value = key === "threshold" ? Math.log10(value) : value;
    slide.setAttribute("aria-valuetext", String(value));
    if (at(key) !== held) {
      at(key).value = value;
      at(key).setAttribute("aria-invalid", "false");
    }
  }
}

/** What a rule does to many runs; accuracies are those of runs that learned something. */
function total(outcomes) {
  const judged = outcomes.filter((one) => !one.problem);
  const stopped = judged.filter((one) => one.stop !== null);
  const decided = judged.filter((one) => one.decided);
  const learned = decided.filter((one) => one.kept !== null);
  const saved = sum(stopped.map((one) => one.saved.rounds));
  const rounds = sum(decided.map((one) => one.budget));
  return {
    judged: judged.length,
    unjudged: outcomes.length - judged.length,
    stopped: stopped.length,
    clock: stopped.filter(byTheClock).length,
    never: decided.length - stopped.length,
    open: judged.length - decided.length,
    median: median(stopped.map((one) => one.stop)),
    rounds: saved,
    of: rounds,
    share: saved === null ? null : saved / rounds,
    idle: decided.filter((one) => one.score !== null).length - learned.length,
    kept: mean(learned.map((one) => one.kept)),
    regret: mean(learned.map((one) => one.regret)),
    score: mean(learned.map((one) => one.score)),
    seconds: sum(stopped.map((one) => one.saved.seconds)),
    bytes: sum(stopped.map((one) => one.saved.bytes)),
  };
}

/** Cards of many runs: a word, its number, and what it is of. */
function tilesOf(all) {
  const idle = all.idle ? `; ${counted(all.idle, "run")} that never learned left out` : "";
  const open = all.open ? `; ${counted(all.open, "run")} not decided yet` : "";
  const unjudged = all.unjudged ? `; ${all.unjudged} cannot be judged` : "";
  const rounds = all.rounds === null ? "no run stopped" : `${text.number(all.rounds)} of ${text.number(all.of)}`;
  const lost = all.regret === null ? "no accuracy to compare" : `${text.points(all.regret)} below the best, on average`;
  return [
    [
      "rule",
      "Runs stopped",
      `${all.stopped} of ${all.judged}`,
      all.median === null ? "" : `median round ${text.number(all.median)}`,
    ],
    ["budget", "Never stopped", String(all.never), `of ${counted(all.judged, "run")}${open}${unjudged}`],
    ["saved", "Rounds saved", text.percent(all.share), rounds],
    ["kept", "Accuracy kept", text.percent(all.kept), lost + idle],
  ];
}

/** Cards of one run. */
function tilesOfOne(one, run) {
  const stopped = !one.problem && one.stop !== null;
  const saved = one.saved.rounds === null ? "–" : text.percent(one.saved.rounds / run.budget);
  const rounds = stopped ? `${one.saved.rounds} of ${run.budget}` : "nothing is stopped";
  const best = run.budget > run.last ? `the best of ${run.last} recorded rounds` : "the run's best";
  const lost = one.regret === null ? "" : `${text.points(one.regret)} below ${best}`;
  const idle = one.score !== null && !run.learned ? "; it never learned" : "";
  return [
    ["reason", "Stops at", stopped ? `round ${one.stop}` : verdictText(one, run), one.problem || whyText(one)],
    ["saved", "Rounds saved", saved, one.problem ? "" : rounds],
    ["regret", "Accuracy there", text.percent(one.score), one.score === null ? "not recorded" : lost + idle],
    ...(one.average === null ? [] : [["average", "Averaged model", text.percent(one.average), aboveText(one)]]),
  ];
}

const aboveText = ({ average, score }) =>
  `${text.points(Math.abs(average - score))} ${average < score ? "below" : "above"} the last model`;

function showTiles(all, one, run) {
  const made = one ? tilesOfOne(one, run) : tilesOf(all);
  const cut = shown.some((each) => each.budget > each.last) ? "estimated for rounds that were not run" : "";
  if (shown.some((each) => each.has("seconds"))) made.push(["seconds", "Time saved", text.seconds(all.seconds), cut]);
  if (shown.some((each) => each.has("bytes"))) made.push(["bytes", "Traffic saved", text.bytes(all.bytes), cut]);
  const tiles = at("tiles");
  const names = made.map(([, name]) => name).join();
  if (tiles.dataset.made !== names) {
    tiles.dataset.made = names;
    tiles.replaceChildren(
      ...made.map(([term, name]) =>
        html("div", {}, html("dt", {}, explained(term, name)), html("dd"), html("dd", { class: "more" })),
      ),
    );
  }
  made.forEach(([, , value, more], k) => {
    const [, number, note] = tiles.children[k].children;
    number.textContent = value;
    note.textContent = more;
  });
}

const counted = (number, word) => `${text.number(number)} ${word}${number === 1 ? "" : "s"}`;

/** The answer in one sentence. */
function sentence(all, one, run) {
  const settings = Object.entries(state.settings).map(([key, value]) => `${key} ${value}`);
  const rule = `The rule ${state.rule} (${settings.join(", ")})`;
  if (one) return sentenceOfOne(rule, one, run);
  if (!all.judged) return `${rule} can judge no run here.`;
  const often = all.median === null ? "" : `, with a median stop after round ${text.number(all.median)}`;
  const saves = all.share === null ? "" : ` It saves ${text.percent(all.share)} of the rounds`;
  const kept = all.kept === null ? "" : ` and keeps ${text.percent(all.kept)} of the best accuracy`;
  const clock = all.clock
    ? ` In ${counted(all.clock, "run")} the model was still moving: growth fell because many rounds had passed.`
    : "";
  return `${rule} stops ${all.stopped} of ${counted(all.judged, "run")}${often}.${saves}${saves && kept}${saves && "."}${clock}`;
}

const CLOCK = " The model was still moving: growth fell because many rounds had passed, not because training settled.";

function sentenceOfOne(rule, one, run) {
  if (one.problem) return `${rule} cannot judge this run: ${one.problem}.`;
  if (one.stop === null)
    return one.decided
      ? `${rule} does not stop this run within its ${counted(run.budget, "round")}.`
      : `${rule} has not stopped this run by round ${run.last}, of a budget of ${run.budget}.`;
  const saved = text.percent(one.saved.rounds / run.budget);
  const score = one.score === null ? "" : ` and leaves an accuracy of ${text.percent(one.score)}`;
  const lost = one.regret === null ? "" : `, ${text.points(one.regret)} below the best`;
  const first = `${rule} stops this run after round ${one.stop} of ${run.budget}.`;
  const why = `Why: ${whyText(one)}.${byTheClock(one) ? CLOCK : ""}`;
  const average = one.average === null ? "" : ` The averaged model has ${text.percent(one.average)} there.`;
  return `${first} That saves ${saved} of the rounds${score}${lost}.${average} ${why}`;
}

/** What every rule with its usual settings does to the runs that are shown; the sliders do not change that. */
let summed = new Map();
function sumUp(shown) {
  const all = (name) => total(shown.map((run) => usualOutcome(run, name, RULES[name].settings)));
  summed = new Map(Object.keys(RULES).map((name) => [name, all(name)]));
}

/** The chosen rule first, then every other that can judge some run. */
function showWays(shown, all) {
  const titles = [
    explained("rule"),
    `stopped, of ${shown.length}`,
    "median stop",
    explained("saved"),
    explained("kept"),
    explained("regret", "regret, points"),
    explained("seconds"),
    explained("bytes"),
  ];
  const cells = (one) => [
    one.judged === shown.length ? String(one.stopped) : `${one.stopped} of ${one.judged}`,
    text.number(one.median),
    text.percent(one.share),
    text.percent(one.kept),
    text.points(one.regret, ""),
    text.seconds(one.seconds),
    text.bytes(one.bytes),
  ];
  const row = (name, settings, one, mine) =>
    html(
      "tr",
      mine ? { class: "chosen" } : {},
      html("th", { scope: "row" }, swatch(name), explained(`rule ${name}`, text.short(name, settings))),
      cells(one).map((cell) => html("td", {}, cell)),
    );
  const rows = Object.entries(RULES)
    .filter(
      ([name, { settings }]) =>
        name !== "budget" && text.settings(name, settings) !== text.settings(state.rule, state.settings),
    )
    .map(([name, { settings }]) => (summed.get(name).judged ? row(name, settings, summed.get(name), false) : null));
  at("ways").replaceChildren(
    html("caption", {}, "The chosen rule, then every other with its usual settings, on the runs shown"),
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        titles.map((title) => html("th", { scope: "col" }, title)),
      ),
    ),
    html(
      "tbody",
      {},
      row(state.rule, state.settings, all, true),
      rows.filter((one) => one),
    ),
  );
}

const swatch = (name) =>
  svg(
    "svg",
    { class: "swatch", width: 26, height: 8, "aria-hidden": "true" },
    svg("path", {
      class: `line heavy ${COLOURS[name].colour}`,
      d: "M0 4H26",
      "stroke-dasharray": COLOURS[name].dash || null,
    }),
  );
