"use strict";
// When would it have stopped, and what would it have cost? One run: accuracy with every stop, beside distance and signal.

const LANE = 19; // of a rule below the accuracy, in pixels

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

/** The accuracies of the story: every round thin, their mean bold, the averaged model dashed. */
function scoresOf(run) {
  const mean = {
    label: `${run.averageName ? "last model" : columnText(run.scoreName)}, mean of ${SMOOTH} rounds`,
    ys: run.score,
    colour: "ink",
    weight: "heavy",
  };
  const made = [{ label: "every round", ys: run.series(run.scoreName), colour: "ink", weight: "faint" }, mean];
  if (run.averageName)
    made.push({
      label: "averaged model",
      ys: run.series(run.averageName),
      colour: "ink",
      dash: "7 3",
      weight: "heavy",
    });
  return made.map((one) => ({ ...one, join: true }));
}

/** Accuracy by round; below it a lane for every rule, which ends where the rule stops, so that no label covers a curve. */
function accuracyChart(run, ways, width) {
  const judged = ways.filter(({ one }) => !one.problem);
  const order = ({ name, one }) => (name === ways[0].name ? 0 : (one.stop ?? Number.MAX_SAFE_INTEGER));
  const rules = judged.sort((a, b) => order(a) - order(b));
  const series = scoresOf(run);
  const title = "Accuracy by round, and where each rule stops";
  const [top, plot] = [24, width < 500 ? 210 : 280];
  const bottom = 26 + LANE * rules.length + 8;
  const ys = series.flatMap((one) => one.ys);
  const height = top + plot + bottom;
  const frame = { title, xs: run.rounds, ys, width, height, top, bottom, format: percentTick };
  const { drawing, x, y, left } = framed(frame);
  const begin = x.place(run.rounds[0]);
  rules.forEach((way, k) =>
    drawing.append(...lane(run, way, k, { x, y, begin, left, width, top: top + plot + 30, foot: top + plot })),
  );
  drawing.append(...series.map((one) => curve(one, run.rounds, x, y)));
  const [mine] = ways;
  if (mine.one.stop !== null && !mine.one.problem) {
    const mark = { label: `${mine.rule} stops at round ${mine.one.stop}`, colour: COLOURS[mine.rule].colour };
    drawing.append(...upright(mark, x.place(mine.one.stop), top, top + plot, width));
  }
  drawing.append(
    ...rules
      .map(({ rule, one }) => markOn(run, rule, one, x, y))
      .filter((node) => node)
      .reverse(),
  );
  const unjudged = ways.filter(({ one }) => one.problem).map(({ rule, one }) => `${rule} (${one.problem})`);
  const cut = run.budget > run.last ? `Recorded to round ${run.last} of a budget of ${run.budget} rounds. ` : "";
  const note = cut + (unjudged.length ? `Cannot be judged: ${unjudged.join(", ")}.` : "");
  return {
    ...figureOf({ title, drawing, entries: series, note }),
    ...cursorOf({ drawing, x, top, end: top + plot }),
  };
}

const percentTick = (value) => `${Number((100 * value).toPrecision(3))}%`;

/** One rule: its line up to its stop, its name and its round beside the end. */
function lane(run, { rule, one, name }, k, { x, y, begin, left, width, top, foot }) {
  const { colour, dash, shape } = COLOURS[rule];
  const mine = name === text.settings(state.rule, state.settings);
  const [end, y0] = [x.place(one.used), top + LANE * k + LANE / 2];
  const score = one.score === null || one.stop === null ? "" : ` (${text.percent(one.score)})`;
  const label = `${rule}: ${verdictText(one, run)}${score}`;
  const wide = 12 + (mine ? 7.4 : 6.6) * label.length; // the chosen rule's name is bold
  const fits = end + wide < width;
  const line = fits
    ? `M${begin} ${y0}H${end}`
    : `M${begin} ${y0}H${Math.max(begin, end - wide)}M${end - 6} ${y0}H${end}`;
  const guide = svg("line", {
    class: `guide ${colour}`,
    x1: end,
    x2: end,
    y1: y.place(one.score) ?? foot,
    y2: foot,
    "stroke-dasharray": dash || null,
  });
  return [
    one.stop === null ? null : guide,
    svg("path", { class: `line ${colour}`, d: line, "stroke-dasharray": dash || null }),
    one.stop === null
      ? null
      : svg("path", { class: `dot solid ${colour}`, d: shape, transform: `translate(${end} ${y0})` }),
    svg(
      "text",
      {
        class: mine ? "lane-label chosen" : "lane-label",
        x: fits ? end + 10 : Math.max(end - 10, left + 100),
        y: y0 + 4,
        "text-anchor": fits ? "start" : "end",
      },
      label,
    ),
  ].filter((node) => node);
}

/** The stop of a rule on the curve. */
function markOn(run, rule, one, x, y) {
  const place = y.place(one.score);
  if (one.stop === null || place === null) return null;
  const { colour, shape } = COLOURS[rule];
  const where = `translate(${x.place(one.stop).toFixed(1)} ${place.toFixed(1)})`;
  return svg(
    "path",
    { class: `dot solid ${colour}`, d: shape, transform: where },
    svg("title", {}, `${rule}: round ${one.stop}`),
  );
}

const markOf = (verdict) =>
  verdict.problem || verdict.stop === null
    ? null
    : { round: verdict.stop, label: `stop ${verdict.stop}`, colour: COLOURS[state.rule].colour };

function distanceChart(run, verdict, width) {
  return lineChart({
    xs: run.rounds,
    width,
    title: "Distance from the start",
    term: "distance",
    floor: 0,
    mark: markOf(verdict),
    series: [{ label: "distance", ys: run.series("distance"), colour: "ink", weight: "heavy" }],
  });
}

/** What the chosen rule compares with its threshold. */
function signalChart(run, verdict, width) {
  const rule = RULES[state.rule];
  const held = verdict.held.map((value) => (Number.isFinite(value) ? value : null));
  const hidden = rule.log ? held.filter((value) => value !== null && value <= 0).length : 0;
  return lineChart({
    xs: run.rounds,
    width,
    title: `Signal of ${state.rule}${rule.log ? " (log scale)" : ""}`,
    term: "signal",
    log: rule.log,
    mark: markOf(verdict),
    level: { y: state.settings.threshold, label: `threshold ${state.settings.threshold}` },
    series: [{ label: rule.holds, ys: held, colour: "ink", weight: "heavy" }],
    note: hidden ? `${hidden} rounds at or below zero have no place on a log scale.` : "",
  });
}

/** The charts of the story, the largest first. */
function storyOf(run, ways, room) {
  const verdict = judge(run, state.rule, state.settings, true);
  const wide = room >= 900;
  const aside = wide ? Math.floor(room * 0.36) : room;
  const made = [];
  if (run.best !== null) made.push(accuracyChart(run, ways, wide ? room - aside - 24 : room));
  if (run.has("distance")) made.push(distanceChart(run, verdict, aside));
  if (!verdict.problem && RULES[state.rule].holds) made.push(signalChart(run, verdict, aside));
  return made;
}
