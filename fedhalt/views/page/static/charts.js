"use strict";
// Line charts and dots as SVG, without a library: the page stays small and needs no network.

const NS = "http://www.w3.org/2000/svg";

/** Twelve ways to draw a line: a colour, a dash and a shape each, so that they also differ in gray. */
const DASHES = [
  "",
  "7 3",
  "2 3",
  "9 3 2 3",
  "1 4",
  "13 4",
  "4 2 1 2 1 2",
  "10 3 1 3 1 3",
  "5 5",
  "16 3 3 3",
  "3 6",
  "8 2 2 2 2 2",
];
const SHAPES = [
  "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
  "M-4 -4H4V4H-4Z",
  "M0 -5L5 4H-5Z",
  "M0 -6L5 0L0 6L-5 0Z",
  "M0 5L5 -4H-5Z",
  "M-1.5 -5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5Z",
  "M-5 0L-2.5 -4.5H2.5L5 0L2.5 4.5H-2.5Z",
  "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
  "M0 -6L1.8 -1.8L6 0L1.8 1.8L0 6L-1.8 1.8L-6 0L-1.8 -1.8Z",
  "M-2 -5.5H2V5.5H-2Z",
  "M-5.5 -2H5.5V2H-5.5Z",
  "M-5 -5H5L0 0L5 5H-5L0 0Z",
];
const lookOf = (k) => ({ colour: `k${k % 12}`, dash: DASHES[k % 12], shape: SHAPES[k % 12] });

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(NS, tag), attributes, children);
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** About `count` round numbers that span a range; none if it is too narrow for a number to count its steps. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((size) => size >= rough);
  const from = Math.ceil(low / step - 1e-9);
  const number = Number.isSafeInteger(from) ? Math.floor(high / step + 1e-9) - from + 1 : 0;
  return Array.from({ length: Math.max(0, number) }, (_, k) => Number(((from + k) * step).toPrecision(12)));
}

function decades(low, high) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const every = Math.max(1, Math.ceil((to - from) / 5));
  const made = [];
  for (let k = from; k <= to; k += every) made.push(10 ** k);
  return made.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

/** A scale from values to pixels, linear or logarithmic, over all that is to be seen; `round` ends it at round numbers. */
function scale(values, log, from, to, floor = null, round = false) {
  const seen = values.filter((value) => value !== null && (!log || value > 0));
  let [low, high] = seen.length ? spread(seen) : [log ? 0.1 : 0, 1];
  if (floor !== null) low = Math.min(low, floor);
  if (low === high)
    [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 0.5), high + (Math.abs(high) / 10 || 0.5)];
  if (round && !log) {
    const [first, second] = ticks(low, high, 4);
    const step = second - first;
    if (step > 0) [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  }
  const of = log ? Math.log10 : (value) => value;
  const [a, b] = [of(low), of(high)];
  const place = (value) =>
    value === null || (log && value <= 0) ? null : from + ((of(value) - a) / (b - a)) * (to - from);
  return {
    place,
    low,
    high,
    ticks: log ? decades(low, high) : ticks(low, high, 4),
    back: (pixel) => a + ((pixel - from) / (to - from)) * (b - a),
  };
}

/** The two ends, so that Math.min does not receive a hundred thousand arguments. */
const spread = (values) =>
  values.reduce(
    ([low, high], value) => [value < low ? value : low, value > high ? value : high],
    [Infinity, -Infinity],
  );

/** Points as a path; a value that is missing breaks the line unless `join`, a lone one is drawn as a dot. */
function path(xs, ys, x, y, join = false) {
  let made = "";
  let pen = false;
  for (let i = 0; i < xs.length; i++) {
    const place = y.place(ys[i] ?? null);
    if (place === null) {
      pen = pen && join;
    } else {
      const at = `${x.place(xs[i]).toFixed(1)} ${place.toFixed(1)}`;
      made += pen ? `L${at}` : `M${at}h0`;
      pen = true;
    }
  }
  return made;
}

/** The frame of a chart: the drawing with its grid and axes, and scales from values to places. */
function framed({ title, xs, ys, width, height, top, bottom, log = false, floor = null, format = text.number }) {
  const [left, right] = [54, 14];
  const x = scale(xs, false, left, width - right);
  const y = scale(ys, log, height - bottom, top, floor, true);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  for (const tick of y.ticks) {
    const place = y.place(tick);
    drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: place, y2: place }));
    drawing.append(svg("text", { x: left - 6, y: place + 4, "text-anchor": "end" }, format(tick)));
  }
  const under = height - bottom + 17;
  const steps = ticks(x.low, x.high, Math.max(2, width / 110)).filter(Number.isInteger);
  const named = steps.filter((tick) => x.place(tick) > left + 50);
  drawing.append(svg("text", { x: left - 6, y: under, "text-anchor": "start" }, "round"));
  for (const tick of named)
    drawing.append(
      svg("text", { x: Math.min(x.place(tick), width - 16), y: under, "text-anchor": "middle" }, String(tick)),
    );
  return { drawing, x, y, left, right };
}

const curve = (one, xs, x, y) =>
  svg("path", {
    class: `line ${one.colour} ${one.weight ?? ""}`,
    d: path(xs, one.ys, x, y, one.join),
    "stroke-dasharray": one.dash || null,
  });

/**
 * A line chart: series {label, ys, colour, dash, weight}, level {y, label} across, mark {round, label, colour} upright.
 * Returns the figure, and `point(i)`, which moves its cursor to a round and says its values.
 */
function lineChart({ title, term, xs, series, level = null, mark = null, width, note = "", ...rest }) {
  const [top, bottom, height] = [mark ? 24 : 12, 24, (rest.plot ?? 186) + 24 + (mark ? 24 : 12)];
  const ys = [...series.flatMap((one) => one.ys), level?.y ?? null];
  const { drawing, x, y, left, right } = framed({ ...rest, title, xs, ys, width, height, top, bottom });
  if (level) {
    const place = y.place(level.y);
    drawing.append(svg("line", { class: "level", x1: left, x2: width - right, y1: place, y2: place }));
  }
  drawing.append(...series.map((one) => curve(one, xs, x, y)));
  if (mark) drawing.append(...upright(mark, x.place(mark.round), top, height - bottom, width));
  const entries = level ? [...series, { label: level.label, colour: "level", kind: "level-label" }] : series;
  return {
    ...figureOf({ title, term, drawing, entries, note }),
    ...cursorOf({ drawing, x, top, end: height - bottom }),
  };
}

/** The stop: a line, and what it says above the curves. */
function upright({ label, colour }, at, top, bottom, width) {
  const turn = at > width / 2;
  return [
    svg("line", { class: `mark ${colour}`, x1: at, x2: at, y1: top - 6, y2: bottom }),
    svg(
      "text",
      { class: "mark-label", x: at + (turn ? 4 : -4), y: top - 10, "text-anchor": turn ? "end" : "start" },
      label,
    ),
  ];
}

/** A line that follows the reader over a drawing. */
function cursorOf({ drawing, x, top, end }) {
  const cursor = svg("line", { class: "cursor", y1: top, y2: end, visibility: "hidden" });
  drawing.append(cursor);
  return {
    point: (round) => fill(cursor, { x1: x.place(round), x2: x.place(round), visibility: "visible" }, []),
    roundAt: (pixel) => x.back(pixel),
  };
}

/** A drawing under its title, with a key where there is more than one line. */
function figureOf({ title, term = null, drawing, entries, note = "" }) {
  const figure = html(
    "figure",
    { class: "chart" },
    html("figcaption", {}, term ? explained(term, title) : title),
    drawing,
    legend(entries),
    note ? html("p", { class: "note" }, note) : null,
  );
  return { figure, drawing };
}

function legend(entries) {
  if (entries.length < 2) return null;
  const entry = ({ label, colour, dash, weight, kind }) =>
    html(
      "li",
      { class: kind ?? null },
      svg(
        "svg",
        { width: 28, height: 10, "aria-hidden": "true" },
        svg("path", { class: `line ${colour} ${weight ?? ""}`, d: "M0 5H28", "stroke-dasharray": dash || null }),
      ),
      label,
    );
  return html("ul", { class: "legend" }, entries.map(entry));
}
