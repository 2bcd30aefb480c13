"use strict";
// One run: its curves with the stops, where each rule ends it and what that saves, its configuration, its numbers.

let lines = []; // the charts whose cursors move together

/** The chosen rule, those that ran along, and every other with its usual settings. */
function waysOf(run) {
  const all = [
    { rule: state.rule, ...state.settings },
    ...run.watched,
    ...Object.entries(RULES)
      .filter(([name]) => name !== "budget")
      .map(([rule, { settings }]) => ({ rule, ...settings })),
  ];
  const keyed = new Map();
  for (const { rule, ...settings } of all) {
    const name = text.settings(rule, settings);
    if (!keyed.has(name)) keyed.set(name, { rule, settings, name, one: run.outcome(judge(run, rule, settings)) });
  }
  return [...keyed.values()];
}

function chartsOf(run, ways, width) {
  const verdict = judge(run, state.rule, state.settings, true);
  const rule = RULES[state.rule];
  const mine =
    verdict.stop === null ? [] : [{ round: verdict.stop, label: `stop ${verdict.stop}`, ...COLOURS[state.rule] }];
  const stops = ways
    .filter(({ one }) => one.stop !== null)
    .map(({ rule: name, one }) => ({ round: one.stop, label: name, ...COLOURS[name] }));
  const common = { xs: run.rounds, width };
  const made = [];
  if (run.has("distance"))
    made.push(
      lineChart({
        ...common,
        title: "Distance from the start, δ = ‖θᵣ − θ₀‖",
        floor: 0,
        marks: mine,
        series: [{ label: "distance", ys: run.series("distance"), colour: "k0", bold: true }],
      }),
    );
  if (run.moved.some((one) => one.exponent !== null)) made.push(exponentChart(run, width, mine));
  if (!verdict.problem && rule.held) {
    const held = verdict.held.map((value) => (Number.isFinite(value) ? value : null));
    const hidden = rule.log ? held.filter((value) => value !== null && value <= 0).length : 0;
    made.push(
      lineChart({
        ...common,
        title: `${state.rule}: ${rule.held}${rule.log ? " (log scale)" : ""}`,
        log: rule.log,
        marks: mine,
        level: { y: state.settings.threshold, label: `threshold ${state.settings.threshold}` },
        series: [{ label: "held", ys: held, colour: "k1", bold: true }],
        note: hidden ? `${hidden} rounds at or below zero have no place on a log scale.` : "",
      }),
    );
  }
  if (!verdict.problem) {
    const patience = state.settings.patience ?? state.settings.rounds;
    made.push(
      lineChart({
        ...common,
        title: "Streak: rounds in a row that count",
        floor: 0,
        marks: mine,
        level: { y: patience, label: `patience ${patience}` },
        series: [{ label: "streak", ys: verdict.streak, colour: "k2", bold: true }],
      }),
    );
  }
  for (const [part, title, format] of [
    ["accuracy", "Accuracy, with the stop of every rule", (value) => `${Number((100 * value).toPrecision(3))} %`],
    ["loss", "Loss, with the stop of every rule", text.number],
  ]) {
    const names = run
      .names(part)
      .filter((name) => known(run.series(name)).length)
      .sort((a, b) => (b === run.scoreName) - (a === run.scoreName));
    const series = names.map((name, k) => ({
      label: name,
      ys: run.series(name),
      colour: `k${k % 8}`,
      dash: DASHES[k % 8],
      bold: name === run.scoreName,
      join: true,
    }));
    const [low, high] = spread(series.flatMap((one) => known(one.ys)));
    const log = part === "loss" && low > 0 && high > 50 * low;
    if (series.length)
      made.push(
        lineChart({ ...common, title: log ? `${title} (log scale)` : title, log, series, format, marks: stops }),
      );
  }
  return made;
}

function stopsTable(run, ways) {
  const titles = [
    "rule",
    "stops at",
    "reason",
    "exponent",
    "accuracy there",
    "kept",
    "regret, points",
    "rounds saved",
    "time saved",
    "traffic saved",
  ];
  const row = ({ rule, settings, name, one }, k) =>
    html(
      "tr",
      k === 0 ? { class: "chosen" } : {},
      html(
        "th",
        { scope: "row" },
        swatch(rule),
        text.short(rule, settings),
        k === 0
          ? " (chosen)"
          : run.watched.some((other) => {
                const { rule: its, ...given } = other;
                return text.settings(its, given) === name;
              })
            ? " (watched)"
            : "",
      ),
      [
        verdictText(one),
        one.problem ?? (one.reason || "–"),
        toldText(one),
        text.percent(one.score),
        text.percent(one.kept),
        text.points(one.regret, ""),
        `${one.saved.rounds} (${text.percent(one.share === null ? null : 1 - one.share)})`,
        text.seconds(one.saved.seconds),
        text.bytes(one.saved.bytes),
      ].map((cell) => html("td", {}, cell)),
    );
  return html(
    "div",
    { class: "scroll", role: "region", "aria-label": "Where each rule stops", tabindex: "0" },
    html(
      "table",
      {},
      html("caption", {}, "Where each rule stops, and what it saves against the whole record"),
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
  return html("details", { open: "" }, html("summary", {}, "Configuration"), body);
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
      html(
        "div",
        { class: "scroll tall", role: "region", "aria-label": "Numbers", tabindex: "0" },
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
      ),
    );
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
  const show = () => {
    const i = Number(slide.value);
    slide.setAttribute("aria-valuetext", `round ${run.rounds[i]}`);
    for (const line of lines) line.point(run.rounds[i]);
    const names = Object.keys(run.raw.columns).filter((name) => run.column(name).shown(i) !== null);
    output.textContent = [
      `round ${run.rounds[i]}`,
      ...names.map((name) => `${name} ${text.number(run.column(name).shown(i))}`),
      `exponent ${toldText(run.moved[i])}`,
    ].join(" · ");
  };
  slide.addEventListener("input", show);
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
  show();
  return html("div", { class: "reader" }, html("label", { for: "round" }, "Read a round "), slide, output);
}

function showDetail(run) {
  at("one-title").textContent = runs.length === 1 ? "Round by round" : run.name;
  if (!run.rounds.length) {
    lines = [];
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
  const width = Math.max(280, room < 760 ? room : Math.floor((room - 24) / 2));
  lines = chartsOf(run, ways, width);
  const charts = html(
    "div",
    { class: "charts" },
    lines.map((line) => line.figure),
  );
  const parts = [charts, reader(run), stopsTable(run, ways), configuration(run), numbers(run)];
  at("detail").replaceChildren(...parts);
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
