"use strict";
// One run: its curves with the stops, where each rule ends it and what that saves, its configuration, its numbers.

let lines = []; // the charts whose cursors move together

/** What the story leaves out. */
function moreCharts(run, width) {
  const verdict = judge(run, state.rule, state.settings, true);
  const common = { xs: run.rounds, width, mark: markOf(verdict) };
  const made = [];
  if (run.moved.some((one) => one.exponent !== null))
    made.push(
      lineChart({
        ...common,
        title: "Exponent: 0 saturated, ½ random walk, 1 straight drift",
        term: "exponent",
        floor: 0,
        series: [{ label: "exponent", ys: run.moved.map((one) => one.exponent), colour: "ink", weight: "heavy" }],
      }),
    );
  if (run.has(DRIFT))
    made.push(
      lineChart({
        ...common,
        title: "Drift: 1 scattering, 20 random walk, 55 straight line",
        term: "drift",
        floor: 0,
        series: [{ label: "drift", ys: run.series(DRIFT), colour: "ink", weight: "heavy" }],
      }),
    );
  if (!verdict.problem) {
    const patience = state.settings.patience ?? state.settings.rounds;
    const label = "patience" in state.settings ? `patience ${patience}` : `${patience} rounds`;
    made.push(
      lineChart({
        ...common,
        title: "Streak: rounds in a row that count",
        term: "streak",
        floor: 0,
        level: { y: patience, label },
        series: [{ label: "streak", ys: verdict.streak, colour: "ink", weight: "heavy" }],
      }),
    );
  }
  for (const [part, title, format] of [
    ["accuracy", "Accuracy, every recorded metric", percentTick],
    ["loss", "Loss", text.number],
  ]) {
    const names = run
      .names(part)
      .filter((name) => known(run.series(name)).length)
      .sort((a, b) => (b === run.scoreName) - (a === run.scoreName));
    const series = names.map((name, k) => ({
      label: columnText(name),
      ys: run.series(name),
      ...lookOf(k),
      weight: name === run.scoreName ? "heavy" : "",
      join: true,
    }));
    const [low, high] = spread(series.flatMap((one) => known(one.ys)));
    const log = part === "loss" && low > 0 && high > 50 * low;
    if (series.length)
      made.push(lineChart({ ...common, title: log ? `${title} (log scale)` : title, log, series, format }));
  }
  return made;
}

/** Where each rule stops, and what that saves and costs. */
function stopsTable(run, ways) {
  const averaged = run.averageName !== null;
  const drifts = run.has(DRIFT);
  const titles = [
    explained("rule"),
    "stops at",
    explained("reason"),
    explained("exponent", "model (exponent)"),
    drifts ? explained("drift") : null,
    explained("accuracy"),
    averaged ? explained("average") : null,
    explained("regret", "regret, points"),
    explained("saved"),
    explained("seconds"),
    explained("bytes"),
  ].filter((title) => title);
  const mark = (name, k) => {
    if (k === 0) return " (chosen)";
    const watched = run.watched.some(({ rule, ...given }) => text.settings(rule, given) === name);
    return watched ? " (watched)" : "";
  };
  const row = ({ rule, settings, name, one }, k) =>
    html(
      "tr",
      k === 0 ? { class: "chosen" } : {},
      html("th", { scope: "row" }, swatch(rule), explained(`rule ${rule}`, text.short(rule, settings)), mark(name, k)),
      [
        verdictText(one, run),
        one.problem ?? (reasonText(rule, one.reason) || "–"),
        one.problem ? "–" : motionText(one, one.used),
        drifts ? driftText(one.drift) : null,
        text.percent(one.score),
        averaged ? text.percent(one.average) : null,
        text.points(one.regret, ""),
        one.saved.rounds === null ? "–" : `${one.saved.rounds} (${text.percent(one.saved.rounds / run.budget)})`,
        text.seconds(one.saved.seconds),
        text.bytes(one.saved.bytes),
      ]
        .filter((cell) => cell !== null)
        .map((cell) => html("td", {}, cell)),
    );
  const caption = `Where each rule stops, against ${run.budget > run.last ? "the budget of" : "all"} ${run.budget} rounds`;
  return scrolling(
    "Where each rule stops",
    html(
      "table",
      {},
      html("caption", {}, caption),
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          titles.map((title) => html("th", { scope: "col" }, title)),
        ),
      ),
      html("tbody", {}, ways.map(row)),
    ),
  );
}

function configuration(run) {
  const fields = Object.entries(flat(run));
  const body = fields.length
    ? html(
        "dl",
        { class: "fields" },
        fields.map(([key, value]) =>
          html(
            "div",
            {},
            html("dt", {}, key),
            html("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
          ),
        ),
      )
    : html("p", { class: "note" }, "The record holds no configuration.");
  return html("details", {}, html("summary", {}, "Configuration"), body);
}

/** All numbers of the page for this run, written out when somebody opens it. */
function numbers(run) {
  const node = html("details", {}, html("summary", {}, `Numbers of all ${run.rounds.length} rounds`));
  node.addEventListener("toggle", () => {
    if (!node.open || node.children.length > 1) return;
    const names = Object.keys(run.raw.columns);
    const cell = (name, i) => {
      try {
        return text.number(run.column(name).value(i));
      } catch {
        return "–";
      }
    };
    node.append(
      scrolling(
        "Numbers",
        html(
          "table",
          {},
          html(
            "thead",
            {},
            html(
              "tr",
              {},
              ["round", ...names].map((name) => html("th", { scope: "col" }, name)),
            ),
          ),
          html(
            "tbody",
            {},
            run.rounds.map((round, i) =>
              html(
                "tr",
                {},
                html("th", { scope: "row" }, String(round)),
                names.map((name) => html("td", { class: "right" }, cell(name, i))),
              ),
            ),
          ),
        ),
        " tall",
      ),
    );
    hintOverflow();
  });
  return node;
}

/** A slider over the rounds: with the keyboard or the pointer on a chart, and the values as text. */
function reader(run) {
  const slide = html("input", {
    id: "round",
    type: "range",
    min: 0,
    max: Math.max(0, run.rounds.length - 1),
    step: 1,
    value: run.rounds.length - 1,
  });
  const output = html("output", { for: "round" });
  const show = (moved = true) => {
    const i = Number(slide.value);
    slide.setAttribute("aria-valuetext", `round ${run.rounds[i]}`);
    if (moved) for (const line of lines) line.point(run.rounds[i]);
    const names = Object.keys(run.raw.columns).filter((name) => name !== DRIFT && run.column(name).shown(i) !== null);
    output.textContent = [
      `round ${run.rounds[i]}`,
      ...names.map((name) => `${columnText(name)} ${text.number(run.column(name).shown(i))}`),
      `model ${motionText(run.moved[i], run.rounds[i])}`,
      ...(run.has(DRIFT) ? [`drift ${driftText(run.series(DRIFT)[i])}`] : []),
    ].join(" · ");
  };
  slide.addEventListener("input", () => show());
  for (const line of lines) {
    line.drawing.addEventListener("pointermove", (event) => {
      const round = line.roundAt(event.offsetX * (line.drawing.viewBox.baseVal.width / line.drawing.clientWidth));
      slide.value = run.rounds.reduce(
        (best, one, i) => (Math.abs(one - round) < Math.abs(run.rounds[best] - round) ? i : best),
        0,
      );
      show();
    });
  }
  show(false);
  return html("div", { class: "reader" }, html("label", { for: "round" }, "Read a round "), slide, output);
}

/** The story stands at the top where there is but one run. */
function showDetail(run) {
  const alone = runs.length === 1;
  at("one-title").textContent = alone ? "Round by round" : labelOf(run);
  if (!run.rounds.length) {
    lines = [];
    at("hero").replaceChildren();
    at("detail").replaceChildren(
      html("p", { class: "problem" }, run.problem || "No round is recorded yet."),
      configuration(run),
    );
    return;
  }
  const open = [...at("detail").querySelectorAll("details")].map((node) => node.open);
  const position = run === at("detail").run ? document.getElementById("round")?.value : undefined;
  const ways = waysOf(run);
  const room = at("detail").clientWidth || 640;
  const story = storyOf(run, ways, room);
  const more = moreCharts(run, Math.max(280, room < 760 ? room : Math.floor((room - 24) / 2)));
  lines = [...story, ...more];
  const figures = (made, kind) =>
    html(
      "div",
      { class: kind },
      made.map((line) => line.figure),
    );
  const top = figures(story, run.best === null ? "charts" : "story");
  if (alone) at("hero").replaceChildren(top);
  at("detail").replaceChildren(
    ...(alone ? [] : [html("p", { class: "note" }, run.name), top]),
    reader(run),
    stopsTable(run, ways),
    figures(more, "charts"),
    configuration(run),
    numbers(run),
  );
  const moved = document.getElementById("round");
  if (position !== undefined && Number(position) < Number(moved.max)) {
    moved.value = position;
    moved.dispatchEvent(new Event("input"));
  }
  if (run === at("detail").run)
    [...at("detail").querySelectorAll("details")].forEach((node, k) => {
      node.open = open[k] ?? node.open;
    });
  at("detail").run = run;
}
