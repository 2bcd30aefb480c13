"use strict";
// Accuracy lost against rounds used: one mark per run, moved by the sliders.

const ENDS = { stopped: SHAPES[0], never: SHAPES[1], diverged: SHAPES[2] };
let dots = new Map();
let places = null;

function shapeOf(one) {
  if (one.reason === "diverged") return "diverged";
  return one.stop === null ? "never" : "stopped";
}

/** Ten colours, then the same ones pale. */
const tint = (methods, name) => `k${methods.indexOf(name) % 10}${methods.indexOf(name) > 9 ? " pale" : ""}`;
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
  const label = "Accuracy lost against rounds used, one mark per run; the numbers are in the table of runs";
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
      svg("text", { x: x.place(tick), y: height - 22, "text-anchor": "middle" }, `${Math.round(100 * tick)}%`),
    );
  drawing.append(
    svg("text", { x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, "rounds used, share of the budget"),
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
      html("figcaption", {}, explained("regret", "Accuracy lost against rounds used")),
      drawing,
      key(methods),
    ),
  );
}

function key(methods) {
  const named = (method) => WORDS.methods[method] ?? method;
  const mark = (shape, colour) =>
    svg(
      "svg",
      { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" },
      svg("path", { class: `dot ${colour} ${shape}`, d: ENDS[shape] }),
    );
  const words = { stopped: "stopped", never: "never stopped", diverged: "diverged" };
  return html(
    "ul",
    { class: "legend" },
    Object.entries(words).map(([shape, word]) => html("li", {}, mark(shape, "plain"), word)),
    methods.length > 1 ? methods.map((name) => html("li", {}, mark("stopped", tint(methods, name)), named(name))) : [],
  );
}

/** Where a run ends, for a mark under the pointer. */
function endText(run, one) {
  const where = one.stop === null ? verdictText(one, run) : `round ${one.stop} of ${run.budget}`;
  const why = whyText(one) ? ` (${whyText(one)})` : "";
  const lost = one.regret === null ? "" : `, ${text.points(one.regret)} below its best`;
  return `${labelOf(run)}: ${where}${why}${lost}`;
}

function moveDots(found) {
  const highest = maximum([...found.values()].map((one) => one.regret));
  if (dots.size && highest > places.y.high) buildScatter([...dots.keys()], highest);
  for (const [run, { dot, name }] of dots) {
    const one = found.get(run);
    if (!one || one.regret === null) {
      dot.setAttribute("visibility", "hidden");
      continue;
    }
    const shape = shapeOf(one);
    fill(
      dot,
      {
        d: ENDS[shape],
        visibility: "visible",
        transform: `translate(${places.x.place(one.share).toFixed(1)} ${places.y.place(one.regret).toFixed(1)})`,
      },
      [],
    );
    for (const other of Object.keys(ENDS)) dot.classList.toggle(other, other === shape);
    name.textContent = endText(run, one);
  }
}
