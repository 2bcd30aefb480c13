"use strict";
// The comparison table, sortable and filterable, and the small multiples.

const verdictText = (one) => (one.problem ? "not judged" : one.stop === null ? "never" : String(one.stop));
const COLUMNS = {
  name: { title: "run", value: (run) => labelOf(run) },
  rounds: { title: "rounds", value: (run) => run.last, right: true },
  stop: {
    title: "stops at",
    value: (run, one) => one.stop ?? Infinity,
    show: (run, one) => verdictText(one),
    right: true,
  },
  reason: {
    title: "reason",
    value: (run, one) => one.problem ?? (one.reason || (run.problem ? "cannot be read" : "")),
  },
  exponent: { title: "exponent", value: (run, one) => one.exponent, show: (run, one) => toldText(one) },
  saved: {
    title: "rounds saved",
    value: (run, one) => (one.share === null ? null : 1 - one.share),
    show: (run, one) => (one.share === null ? "–" : text.percent(1 - one.share)),
    right: true,
  },
  score: {
    title: "accuracy there",
    value: (run, one) => one.score,
    show: (run, one) => text.percent(one.score),
    right: true,
  },
  best: { title: "best", value: (run) => run.best, show: (run) => text.percent(run.best), right: true },
  regret: {
    title: "regret, points",
    value: (run, one) => one.regret,
    show: (run, one) => text.points(one.regret, ""),
    right: true,
  },
  seconds: {
    title: "time saved",
    value: (run, one) => one.saved.seconds,
    show: (run, one) => text.seconds(one.saved.seconds),
    right: true,
  },
  bytes: {
    title: "traffic saved",
    value: (run, one) => one.saved.bytes,
    show: (run, one) => text.bytes(one.saved.bytes),
    right: true,
  },
  data: { title: "data", value: FIELDS.data },
  method: { title: "method", value: FIELDS.method },
  skew: { title: "skew", value: FIELDS.skew },
  lr: { title: "rate", value: FIELDS.lr, right: true },
};
const MOVING = ["stop", "reason", "exponent", "saved", "score", "regret", "seconds", "bytes"]; // with the sliders
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
        return html("label", { class: "control" }, COLUMNS[key].title, " ", select);
      }),
    );
  }
  for (const [key] of choices) at(`filter-${key}`).value = state[key];
}

const valuesOf = (of) => [...new Set(runs.map((run) => String(of(run))))].sort(natural);

const columnsOf = (shown) =>
  Object.entries(COLUMNS).filter(([key, { value }]) => !(key in FIELDS) || shown.some((run) => value(run) !== ""));

function heading([key, { title }]) {
  const sorted = state.sort === key;
  const button = html(
    "button",
    { type: "button", "data-place": `sort ${key}` },
    title,
    html("span", { "aria-hidden": "true" }, sorted ? (state.down ? " ▼" : " ▲") : ""),
  );
  button.addEventListener("click", () => {
    state.down = sorted && !state.down;
    state.sort = key;
    rebuild();
    document.querySelector(`#table th[data-key="${key}"] button`).focus();
  });
  return html(
    "th",
    { scope: "col", "data-key": key, "aria-sort": sorted ? (state.down ? "descending" : "ascending") : "none" },
    button,
  );
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
    html("caption", {}, "The chosen rule on every run; a heading sorts"),
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
    for (const key of MOVING) {
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
        const ys = scored ? run.series(run.scoreName) : run.has("distance") ? run.series("distance") : [];
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
    says.textContent = `${verdictText(one)} of ${run.last}${score}`;
  }
}
