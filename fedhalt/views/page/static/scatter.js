"use strict";
// Regret against cost: one dot per run, moved by the sliders.

const SHAPES = {
  stopped: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0",
  never: "M-4 -4H4V4H-4Z",
  diverged: "M0 -5L5 4H-5Z",
};
let dots = new Map();
let places = null;

const shapeOf = (one) => (one.reason === "diverged" ? "diverged" : one.stop === null ? "never" : "stopped");
/** Eight colours, then the same ones pale. */
const tint = (methods, name) => `k${methods.indexOf(name) % 8}${methods.indexOf(name) > 7 ? " pale" : ""}`;
const methodsOf = (shown) => [...new Set(shown.map((run) => run.spec.method ?? "run"))].sort();

/** The largest regret under the usual rules: axes that stay while the sliders move, unless they must grow. */
const usualRegret = (shown) =>
  maximum(
    Object.entries(RULES).flatMap(([name, { settings }]) =>
      shown.map((run) => usualOutcome(run, name, settings).regret),
    ),
  );

function buildScatter(shown, highest = usualRegret(shown)) {
  const width = Math.max(280, Math.min(720, at("scatter").clientWidth || 480));
  const [height, left, right, top, bottom] = [300, 50, 24, 12, 40];
  const drawn = shown.filter((run) => run.best !== null);
  if (!drawn.length) {
    dots = new Map();
    at("scatter").replaceChildren(
      html("p", { class: "note" }, "No accuracy is recorded in these runs, so there is no regret to draw."),
    );
    return;
  }
  const x = scale([0, 1], false, left, width - right);
  const y = scale([0, highest || 0.01], false, height - bottom - 6, top);
  const label =
    "Regret against cost: share of the rounds used, points of accuracy given up; the numbers are in the table of runs";
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  for (const tick of y.ticks) {
    drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y.place(tick), y2: y.place(tick) }));
    drawing.append(
      svg(
        "text",
        { x: left - 6, y: y.place(tick) + 4, "text-anchor": "end" },
        text.number(Number((100 * tick).toPrecision(3))),
      ),
    );
  }
  for (const tick of ticks(0, 1, 5))
    drawing.append(
      svg("text", { x: x.place(tick), y: height - 22, "text-anchor": "middle" }, `${Math.round(100 * tick)} %`),
    );
  drawing.append(
    svg(
      "text",
      { x: (left + width) / 2, y: height - 5, "text-anchor": "middle" },
      "cost: share of the recorded rounds used",
    ),
  );
  drawing.append(
    svg(
      "text",
      {
        x: 12,
        y: (top + height - bottom) / 2,
        "text-anchor": "middle",
        transform: `rotate(-90 12 ${(top + height - bottom) / 2})`,
      },
      "regret: points below the best",
    ),
  );
  const methods = methodsOf(drawn);
  dots = new Map(
    drawn.map((run) => {
      const name = svg("title");
      const dot = svg("path", { class: `dot ${tint(methods, run.spec.method ?? "run")}` }, name);
      dot.addEventListener("click", () => openRun(run));
      drawing.append(dot);
      return [run, { dot, name }];
    }),
  );
  places = { x, y };
  at("scatter").replaceChildren(
    html(
      "figure",
      { class: "chart" },
      html("figcaption", {}, "Regret against cost, one mark per run"),
      drawing,
      key(methods),
    ),
  );
}

function key(methods) {
  const mark = (shape, colour) =>
    svg(
      "svg",
      { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" },
      svg("path", { class: `dot ${colour} ${shape}`, d: SHAPES[shape] }),
    );
  const words = { stopped: "stopped", never: "never stopped", diverged: "diverged" };
  return html(
    "ul",
    { class: "legend" },
    Object.entries(words).map(([shape, word]) => html("li", {}, mark(shape, "plain"), word)),
    methods.length > 1 ? methods.map((name) => html("li", {}, mark("stopped", tint(methods, name)), name)) : [],
  );
}

function moveDots(found) {
  const highest = maximum([...found.values()].map((one) => (one.problem ? null : one.regret)));
  if (dots.size && highest > places.y.high) buildScatter([...dots.keys()], highest);
  for (const [run, { dot, name }] of dots) {
    const one = found.get(run);
    if (!one || one.problem || one.regret === null) {
      dot.setAttribute("visibility", "hidden");
      continue;
    }
    const shape = shapeOf(one);
    fill(
      dot,
      {
        d: SHAPES[shape],
        visibility: "visible",
        transform: `translate(${places.x.place(one.share).toFixed(1)} ${places.y.place(one.regret).toFixed(1)})`,
      },
      [],
    );
    for (const other of Object.keys(SHAPES)) dot.classList.toggle(other, other === shape);
    const where = one.stop === null ? "never stopped" : `round ${one.stop} of ${run.last}`;
    const why = whyText(one) ? ` (${whyText(one)})` : "";
    name.textContent = `${labelOf(run)}: ${where}${why}, ${text.points(one.regret)} below its best`;
  }
}
