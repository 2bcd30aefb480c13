"use strict";
// Line charts and dots as SVG, without a library: the page stays small and needs no network.

const NS = "http://www.w3.org/2000/svg";
const HEIGHTS = 4; // of the labels of marks, so that neighbours do not cover each other
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4", "12 4", "4 4 1 4", "10 3 1 3 1 3"]; // besides colours

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

/** A scale from values to pixels, linear or logarithmic, over all that is to be seen. */
function scale(values, log, from, to, floor = null) {
  const seen = values.filter((value) => value !== null && (!log || value > 0));
  let [low, high] = seen.length ? spread(seen) : [log ? 0.1 : 0, 1];
  if (floor !== null) low = Math.min(low, floor);
  if (low === high)
    [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 0.5), high + (Math.abs(high) / 10 || 0.5)];
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

/**
 * A line chart: series {label, ys, colour, dash, bold}, level {y, label} across,
 * marks {round, label, colour, dash} upright.
 * Returns the figure, and `point(round)`, which moves its cursor.
 */
function lineChart({
  title,
  xs,
  series,
  log = false,
  level = null,
  marks = [],
  width,
  format = text.number,
  floor = null,
  note = "",
}) {
  const top = 12 + 12 * Math.min(HEIGHTS, marks.length);
  const [height, left, right, bottom] = [198 + top, 54, 12, 24];
  const x = scale(xs, false, left, width - right);
  const y = scale([...series.flatMap((one) => one.ys), level?.y ?? null], log, height - bottom, top, floor);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  for (const tick of y.ticks) {
    const place = y.place(tick);
    drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: place, y2: place }));
    drawing.append(svg("text", { x: left - 6, y: place + 4, "text-anchor": "end" }, format(tick)));
  }
  for (const tick of ticks(x.low, x.high, Math.max(2, width / 110)).filter(Number.isInteger)) {
    drawing.append(
      svg("text", { x: Math.min(x.place(tick), width - 16), y: height - 6, "text-anchor": "middle" }, String(tick)),
    );
  }
  if (level) {
    const place = y.place(level.y);
    drawing.append(svg("line", { class: "level", x1: left, x2: width - right, y1: place, y2: place }));
    drawing.append(
      svg("text", { class: "level-label", x: width - right - 2, y: place - 5, "text-anchor": "end" }, level.label),
    );
  }
  for (const one of series) {
    const classes = `line ${one.colour}${one.bold ? " bold" : ""}`;
    drawing.append(
      svg("path", { class: classes, d: path(xs, one.ys, x, y, one.join), "stroke-dasharray": one.dash || null }),
    );
  }
  drawing.append(...upright(marks, x, top, height - bottom));
  const cursor = svg("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
  drawing.append(cursor);
  const figure = html(
    "figure",
    { class: "chart" },
    html("figcaption", {}, title),
    drawing,
    legend(series),
    note ? html("p", { class: "note" }, note) : null,
  );
  const point = (round) => fill(cursor, { x1: x.place(round), x2: x.place(round), visibility: "visible" }, []);
  return { figure, drawing, point, roundAt: (pixel) => x.back(pixel) };
}

/** Vertical marks; labels of neighbours stand at different heights. */
function upright(marks, x, top, bottom) {
  return [...marks]
    .sort((a, b) => a.round - b.round)
    .flatMap((mark, k) => {
      const at = x.place(mark.round);
      const turn = at > (x.place(x.low) + x.place(x.high)) / 2;
      return [
        svg("line", {
          class: `mark ${mark.colour}`,
          x1: at,
          x2: at,
          y1: top - 4,
          y2: bottom,
          "stroke-dasharray": mark.dash || null,
        }),
        mark.label
          ? svg(
              "text",
              {
                class: "mark-label",
                x: at + (turn ? -3 : 3),
                y: top - 2 - 12 * (k % HEIGHTS),
                "text-anchor": turn ? "end" : "start",
              },
              mark.label,
            )
          : null,
      ];
    })
    .filter((node) => node !== null);
}

function legend(series) {
  if (series.length < 2) return null;
  const entry = (one) =>
    html(
      "li",
      {},
      svg(
        "svg",
        { width: 28, height: 10, "aria-hidden": "true" },
        svg("path", {
          class: `line ${one.colour}${one.bold ? " bold" : ""}`,
          d: "M0 5H28",
          "stroke-dasharray": one.dash || null,
        }),
      ),
      one.label,
    );
  return html("ul", { class: "legend" }, series.map(entry));
}
