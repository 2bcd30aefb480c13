"use strict";
// When would they have stopped? The accuracy of every run by round, with a mark where the chosen rule ends it.

let ends = new Map();

function buildOverview(shown) {
  const drawn = shown.filter((run) => run.best !== null);
  ends = new Map();
  if (!drawn.length) {
    at("hero").replaceChildren(html("p", { class: "note" }, "No accuracy is recorded in these runs."));
    return;
  }
  const width = Math.max(280, at("hero").clientWidth || 640);
  const [top, bottom, height] = [12, 26, width < 500 ? 260 : 380];
  const title = "Accuracy of every run, and where the chosen rule stops it";
  const frame = { title, width, height, top, bottom, format: percentTick };
  const { drawing, x, y } = framed({
    ...frame,
    xs: [1, maximum(drawn.map((run) => run.last))],
    ys: drawn.flatMap((run) => run.score),
  });
  const methods = methodsOf(drawn);
  const crowd = drawn.length > 20 ? "crowd" : "some";
  for (const run of drawn) {
    const colour = tint(methods, run.spec.method ?? "run");
    drawing.append(curve({ ys: run.score, colour, weight: crowd, join: true }, run.rounds, x, y));
  }
  for (const run of drawn) {
    const name = svg("title");
    const mark = svg("path", { class: `dot ${tint(methods, run.spec.method ?? "run")}` }, name);
    mark.addEventListener("click", () => openRun(run));
    drawing.append(mark);
    ends.set(run, { mark, name, place: (round) => x.place(round), y });
  }
  at("hero").replaceChildren(html("figure", { class: "chart" }, html("figcaption", {}, title), drawing, key(methods)));
}

function moveEnds(found) {
  for (const [run, { mark, name, place, y }] of ends) {
    const one = found.get(run);
    const high = one && y.place(one.score);
    if (high === null || high === undefined) {
      mark.setAttribute("visibility", "hidden");
      continue;
    }
    const shape = shapeOf(one);
    const where = `translate(${place(one.used).toFixed(1)} ${high.toFixed(1)})`;
    fill(mark, { d: ENDS[shape], visibility: "visible", transform: where }, []);
    for (const other of Object.keys(ENDS)) mark.classList.toggle(other, other === shape);
    name.textContent = endText(run, one);
  }
}
