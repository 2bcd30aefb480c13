"use strict";
// Brings the parts together: builds what the runs and filters decide, moves what the sliders decide.

let waiting = false;
let shown = [];

const currentRun = () => runs.find((run) => run.name === state.run) ?? (runs.length === 1 ? runs[0] : null);

function openRun(run) {
  state.run = run.name;
  changed();
  requestAnimationFrame(() => {
    at("one").scrollIntoView();
    at("one-title").focus({ preventScroll: true });
  });
}

/** A setting changed: at most one redraw per frame, however fast the slider is. */
function changed(held = null) {
  showControls(held);
  writeAddress();
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    move();
  });
}

function move() {
  const judged = shown.filter((run) => run.rounds.length);
  const found = new Map(shown.map((run) => [run, chosen(run)]));
  const all = total(judged.map((run) => found.get(run)));
  const alone = runs.length === 1 && judged.length === 1 ? judged[0] : null;
  showTiles(all, alone && found.get(alone), alone);
  at("says").textContent = sentence(all, alone && found.get(alone), alone);
  if (runs.length > 1) {
    showWays(judged, all);
    fillTable(found, inOrder(found));
    moveDots(found);
    moveEnds(found);
    moveStops(found);
  }
  const run = currentRun();
  at("one").hidden = !run;
  if (run) showDetail(run);
  requestAnimationFrame(hintOverflow); // once it is laid out
}

/** The runs, the filters or the order changed. */
function rebuild() {
  shown = shownRuns();
  const many = runs.length > 1;
  for (const id of ["compared", "runs", "small"]) at(id).hidden = !many;
  if (many) {
    sumUp(shown.filter((run) => run.rounds.length));
    buildOverview(shown);
    buildScatter(shown);
    buildTable(shown);
    buildMultiples(inOrder(new Map(shown.map((run) => [run, chosen(run)]))));
  }
  changed();
}

function describe() {
  const scores = [...new Set(runs.map((run) => run.scoreName))].filter((name) => name).map(columnText);
  const rounds = sum(runs.map((run) => run.rounds.length)) ?? 0;
  const bad = runs.filter((run) => run.problem).length;
  at("lead").textContent = [
    `${counted(runs.length, "run")}, ${counted(rounds, "recorded round")}.`,
    runs.length === 1 ? trained(runs[0].spec) : "",
    scores.length
      ? `Accuracy is the ${scores.join(", or where that is missing ")}, mean of the last ${SMOOTH} evaluated rounds.`
      : "No accuracy is recorded.",
    bad ? `${bad} cannot be read; the table says why.` : "",
  ]
    .filter((part) => part)
    .join(" ");
  at("small-note").textContent =
    `${capital(scores[0] ?? "distance")} by round; the upright line is the stop of the chosen rule.`;
  at("ways-note").textContent =
    "Every other rule has its usual settings. A rule that cannot judge any of these runs is left out.";
}

/** What was trained, in a sentence. */
function trained({ clients, cohort, skew, c, lr, model }) {
  const parts = [
    model ? `model ${model}` : "",
    clients ? `${clients} clients` : "",
    cohort ? `${cohort} per round` : "",
    skew ? `${skewOf({ spec: { skew, c } })} split` : "",
    lr ? `learning rate ${lr}` : "",
  ].filter((part) => part);
  return parts.length ? `${capital(parts.join(", "))}.` : "";
}

/** The rule that ran along with all of these runs is the one to begin with, unless the address names another. */
function begin() {
  const usual = new Set(runs.filter((run) => run.rounds.length).map((run) => JSON.stringify(run.watched[0] ?? null)));
  const [only] = [...usual].map((one) => JSON.parse(one));
  if (usual.size !== 1 || !only || new URLSearchParams(location.hash.slice(1)).has("rule")) return;
  const { rule, ...settings } = only;
  Object.assign(state, { rule, settings });
}

/** New data: the runs in the order of their names; who was at a button of the table stays there. */
function take(list) {
  const place = document.activeElement?.closest?.("[data-place]")?.dataset.place;
  const first = !runs.length;
  runs = list.sort((a, b) => natural(a.name, b.name));
  nameRuns();
  if (first) begin();
  describe();
  buildFilters();
  rebuild();
  if (place)
    requestAnimationFrame(() =>
      [...document.querySelectorAll("[data-place]")].find((node) => node.dataset.place === place)?.focus(),
    );
}

async function start() {
  readAddress();
  buildControls();
  buildTips();
  buildWords();
  at("search").addEventListener("input", () => {
    state.search = at("search").value;
    rebuild();
  });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => {
    readAddress();
    buildFilters();
    rebuild();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      rebuild();
    }
  });
  const given = await unpacked(at("data").textContent);
  if (given.live) follow();
  else take(given.runs.map((raw) => new Run(raw)));
}

/** The runs, from compressed JSON as base64. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

start();
