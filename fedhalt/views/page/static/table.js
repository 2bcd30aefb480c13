"use strict";
// The comparison table, sortable and filterable, and the small multiples.

function verdictText(one, run) {
  if (one.problem || !run.rounds.length) return "not judged";
  if (one.stop !== null) return String(one.stop);
  return one.decided ? "never" : `not by ${run.last}`;
}

const COLUMNS = {
  name: { title: "run", value: (run) => labelOf(run) },
  rounds: { title: "rounds", value: (run) => run.last, right: true, term: "budget" },
  stop: {
    title: "stops at",
    value: (run, one) => one.stop ?? Infinity,
    show: (run, one) => verdictText(one, run),
    right: true,
    term: "rule",
  },
  reason: {
    title: "reason",
    value: (run, one) => run.problem || one.problem || reasonText(one.rule, one.reason),
    term: "reason",
  },
  exponent: {
    title: "model (exponent)",
    value: (run, one) => one.exponent,
    show: (run, one) => motionText(one, one.used),
    term: "exponent",
  },
  drift: { title: "drift", value: (run, one) => one.drift, show: (run, one) => driftText(one.drift), term: "drift" },
  saved: {
    title: "rounds saved",
    value: (run, one) => (one.saved.rounds === null ? null : one.saved.rounds / run.budget),
    show: (run, one) => (one.saved.rounds === null ? "–" : text.percent(one.saved.rounds / run.budget)),
    right: true,
    term: "saved",
  },
  score: {
    title: "accuracy there",
    value: (run, one) => one.score,
    show: (run, one) => text.percent(one.score),
    right: true,
    term: "accuracy",
  },
  average: {
    title: "averaged model",
    value: (run, one) => one.average,
    show: (run, one) => text.percent(one.average),
    right: true,
    term: "average",
  },
  best: { title: "best", value: (run) => run.best, show: (run) => text.percent(run.best), right: true, term: "best" },
  regret: {
    title: "regret, points",
    value: (run, one) => one.regret,
    show: (run, one) => text.points(one.regret, ""),
    right: true,
    term: "regret",
  },
  seconds: {
    title: "time saved",
    value: (run, one) => one.saved.seconds,
    show: (run, one) => text.seconds(one.saved.seconds),
    right: true,
    term: "seconds",
  },
  bytes: {
    title: "traffic saved",
    value: (run, one) => one.saved.bytes,
    show: (run, one) => text.bytes(one.saved.bytes),
    right: true,
    term: "bytes",
  },
  data: { title: "data", value: FIELDS.data },
  method: { title: "method", value: FIELDS.method },
  skew: { title: "skew", value: FIELDS.skew, term: "skew" },
  lr: { title: "learning rate", value: FIELDS.lr, right: true, term: "lr" },
};
const MOVING = ["stop", "reason", "exponent", "drift", "saved", "score", "average", "regret", "seconds", "bytes"]; // with the sliders
let rows = new Map();

/** A choice for every field in which runs differ; made anew only if the choices are, so that none is lost in use. */
function buildFilters() {
  at("search").value = state.search;
  const choices = Object.entries(FIELDS)
    .map(([key, of]) => [key, valuesOf(of)])
    .filter(([, values]) => values.length > 1);
  const made = JSON.stringify(choices);
  if (at("choices").dataset.made !== made) {
    at("choices").dataset.made = made;
    at("choices").replaceChildren(
      ...choices.map(([key, values]) => {
        const select = html(
          "select",
          { id: `filter-${key}` },
          html("option", { value: "" }, "all"),
          values.map((value) => html("option", { value }, value || "not recorded")),
        );
        select.addEventListener("change", () => {
          state[key] = select.value;
          rebuild();
        });
        return html("label", { class: "control" }, capital(COLUMNS[key].title), " ", select);
      }),
    );
  }
  for (const [key] of choices) at(`filter-${key}`).value = state[key];
}

const valuesOf = (of) => [...new Set(runs.map((run) => String(of(run))))].sort(natural);

/** Columns that say something: drift and costs where they are recorded, fields in which the runs differ. */
const columnsOf = (shown) =>
  Object.entries(COLUMNS).filter(([key]) => {
    if (key in FIELDS) return differing.named.includes(key);
    const recorded = { seconds: "seconds", bytes: "bytes", drift: DRIFT, average: "averageName" }[key];
    return !recorded || shown.some((run) => run.has(recorded) || run[recorded]);
  });

function heading([key, { title, term }]) {
  const sorted = state.sort === key;
  const order = state.down ? "descending" : "ascending";
  const arrow = state.down ? " ▼" : " ▲";
  const button = html(
    "button",
    { type: "button", "data-place": `sort ${key}`, "data-term": term ?? null },
    title,
    html("span", { "aria-hidden": "true" }, sorted ? arrow : ""),
  );
  button.addEventListener("click", () => {
    state.down = sorted && !state.down;
    state.sort = key;
    rebuild();
    document.querySelector(`#table th[data-key="${key}"] button`).focus();
  });
  return html("th", { scope: "col", "data-key": key, "aria-sort": sorted ? order : "none" }, button);
}

function buildTable(shown) {
  const columns = columnsOf(shown);
  rows = new Map(
    shown.map((run) => {
      const open = html("button", { type: "button", title: run.name, "data-place": `run ${run.name}` }, labelOf(run));
      open.addEventListener("click", () => openRun(run));
      const cells = Object.fromEntries(
        columns.map(([key, { right }]) => [
          key,
          html(key === "name" ? "th" : "td", { class: right ? "right" : null, scope: key === "name" ? "row" : null }),
        ]),
      );
      cells.name.append(open);
      for (const [key, column] of columns)
        if (key !== "name" && !MOVING.includes(key))
          cells[key].textContent = (column.show ?? ((one) => String(column.value(one))))(run);
      return [run, { cells, row: html("tr", {}, Object.values(cells)) }];
    }),
  );
  at("table").replaceChildren(
    html("caption", {}, "The chosen rule on every run; press a heading to sort"),
    html("thead", {}, html("tr", {}, columns.map(heading))),
    html("tbody"),
  );
  at("count").textContent = `${shown.length} of ${runs.length} runs`;
}

/** Unknown values come last, whichever way is up. */
function inOrder(found) {
  const { value } = COLUMNS[state.sort] ?? COLUMNS.name;
  const turn = state.down ? -1 : 1;
  const keyed = [...found].map(([run, one]) => [run, value(run, one)]);
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b || 0 : natural(a, b));
  const absent = (one) => one === null || one === "";
  return keyed
    .sort(([, a], [, b]) => absent(a) - absent(b) || turn * (a === b ? 0 : compare(a, b)))
    .map(([run]) => run);
}

function fillTable(found, order) {
  for (const [run, { cells }] of rows) {
    const one = found.get(run);
    for (const key of MOVING.filter((moves) => moves in cells)) {
      const words = String((COLUMNS[key].show ?? COLUMNS[key].value)(run, one));
      if (cells[key].textContent !== words) cells[key].textContent = words; // an equal text would be laid out anew
    }
  }
  const body = at("table").tBodies[0];
  const before = [...body.children];
  const after = order.map((run) => rows.get(run).row);
  if (before.length !== after.length || before.some((row, k) => row !== after[k])) body.replaceChildren(...after);
}

let tiny = new Map();
const [WIDE, HIGH] = [200, 74];

/** A small picture of every run on the same scale; only the stop moves later. */
function buildMultiples(order) {
  const y = scale(
    order.flatMap((run) => (run.best === null ? [] : run.series(run.scoreName))),
    false,
    HIGH - 4,
    6,
  );
  tiny = new Map(
    order
      .filter((run) => run.rounds.length)
      .map((run) => {
        const x = scale([1, run.last], false, 4, WIDE - 4);
        const scored = run.best !== null;
        const column = scored ? run.scoreName : "distance";
        const ys = run.has(column) ? run.series(column) : [];
        const stop = svg("line", { class: "stop", y1: 2, y2: HIGH - 2 });
        const drawing = svg(
          "svg",
          { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" },
          svg("path", {
            class: "line k0",
            d: path(run.rounds, ys, x, scored ? y : scale(ys, false, HIGH - 4, 6), true),
          }),
          stop,
        );
        const says = html("span", { class: "more" });
        const button = html(
          "button",
          { type: "button", class: "tiny", title: run.name, "data-place": `small ${run.name}` },
          html("span", {}, labelOf(run)),
          drawing,
          says,
        );
        button.addEventListener("click", () => openRun(run));
        return [run, { button, stop, says, x }];
      }),
  );
  at("multiples").replaceChildren(...[...tiny.values()].map(({ button }) => button));
}

function moveStops(found) {
  for (const [run, { stop, says, x }] of tiny) {
    const one = found.get(run);
    const place = x.place(one.used);
    fill(stop, { x1: place, x2: place, visibility: one.stop === null ? "hidden" : "visible" }, []);
    const score = one.score === null ? "" : ` · ${text.percent(one.score)}`;
    says.textContent = `${one.stop === null ? verdictText(one, run) : `stops at ${one.stop}`}${score}`;
  }
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);

/** A table that scrolls sideways where it must, and says so. */
function scrolling(label, table, kind = "") {
  return html(
    "div",
    { class: "wide-table" },
    html("p", { class: "hint", "aria-hidden": "true" }, "Scroll sideways for more columns →"),
    html("div", { class: `scroll${kind}`, role: "region", "aria-label": label, tabindex: "0" }, table),
  );
}

function hintOverflow() {
  for (const node of document.querySelectorAll(".scroll"))
    node.parentElement.classList.toggle("overflows", node.scrollWidth > node.clientWidth + 1);
}
