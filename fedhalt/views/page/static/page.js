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
  showTiles(
    all,
    judged.map((run) => found.get(run)),
  );
  at("says").textContent = sentence(all, judged.length === 1 ? found.get(judged[0]) : null);
  if (runs.length > 1) {
    showWays(judged, all);
    fillTable(found, inOrder(found));
    moveDots(found);
    moveStops(found);
  }
  const run = currentRun();
  at("one").hidden = !run;
  if (run) showDetail(run);
}

/** The runs, the filters or the order changed. */
function rebuild() {
  shown = shownRuns();
  const many = runs.length > 1;
  for (const id of ["compared", "runs", "small"]) at(id).hidden = !many;
  if (many) {
    sumUp(shown.filter((run) => run.rounds.length));
    buildScatter(shown);
    buildTable(shown);
    buildMultiples(inOrder(new Map(shown.map((run) => [run, chosen(run)]))));
  }
  changed();
}

function describe() {
  const scores = [...new Set(runs.map((run) => run.scoreName))].filter((name) => name);
  const rounds = sum(runs.map((run) => run.rounds.length)) ?? 0;
  const bad = runs.filter((run) => run.problem).length;
  at("lead").textContent = [
    `${runs.length} ${runs.length === 1 ? "run" : "runs"}, ${rounds} recorded rounds.`,
    scores.length
      ? `Accuracy is ${scores.join(", or where that is missing ")}, the mean of the last ${SMOOTH} evaluated rounds.`
      : "No accuracy is recorded.",
    bad ? `${bad} cannot be read; the table says why.` : "",
  ].join(" ");
  at("small-note").textContent =
    `${scores[0] ?? "distance"} by round; the upright line is the stop of the chosen rule.`;
  at("ways-note").textContent =
    "Kept: accuracy at the stop as a share of the run's best. Regret: the best minus that, in points. " +
    "A run that never stops uses its whole record.";
  at("about").textContent = "Rounds count from 1. The stops are computed here, by the same steps as the Python rules.";
}

/** New data: the runs in the order of their names; who was at a button of the table stays there. */
function take(list) {
  const place = document.activeElement?.closest?.("[data-place]")?.dataset.place;
  runs = list.sort((a, b) => natural(a.name, b.name));
  findDiffering();
  describe();
  buildFilters();
  rebuild();
  if (place)
    requestAnimationFrame(() =>
      [...document.querySelectorAll("[data-place]")].find((node) => node.dataset.place === place)?.focus(),
    );
}

function start() {
  readAddress();
  buildControls();
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
  const given = JSON.parse(at("data").textContent);
  if (given.live) follow();
  else take(given.runs.map((raw) => new Run(raw)));
}

start();
