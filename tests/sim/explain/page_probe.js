// Run inside the page by page_test.cc: does what hands would do, and writes down what was not as it should be.
{
  const t = window.timeline;
  const failed = [];
  let checks = 0;
  const check = (what, holds) => {
    checks += 1;
    if (!holds) failed.push(what);
  };
  const panel = () => document.getElementById("panel").textContent;
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
  const click = ({x, y}) => {
    const box = t.canvas.getBoundingClientRect();
    const at = {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true};
    for (const type of ["pointermove", "pointerdown", "pointerup"]) t.canvas.dispatchEvent(new PointerEvent(type, at));
    t.drawNow();
  };
  const colours = () => {
    const copy = new OffscreenCanvas(t.canvas.width, t.canvas.height).getContext("2d", {willReadFrequently: true});
    copy.drawImage(t.canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, t.canvas.width, t.canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4)
      if (data[i + 3] > 0) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return seen.size;
  };

  t.drawNow();
  const {history} = t;
  check("the head names the promise", document.getElementById("promise").textContent === "S2 broken");
  check("a failure is chosen first", t.choice.chosen === history.failure.moment);
  check("its causes are lit", t.choice.causes.size > 1);
  check("something is drawn", colours() > 20);

  // Each kind of moment: what the panel says is what happened.
  for (const spark of ["call", "message", "kernel", "stream"]) {
    const moment =
        history.moments.find((each) => each.spark === spark && !each.quiet && each.outs.length + each.ins.length > 0);
    t.choose(null);
    t.scale.range(moment.id - 3, moment.id + 3);
    t.drawNow();
    click(t.drawing.where(moment.id));
    check(`a click chooses a ${spark}`, t.choice.chosen === moment.id);
    check(`the panel names a ${spark}`, panel().includes(`${history.laneName(moment.lane)}, #${moment.id}`));
    check(
        `the panel tells what a ${spark} was`,
        [...moment.ins, ...moment.outs].every((words) => panel().includes(words)));
    const state = history.states[moment.after];
    check(
        `the state after a ${spark} is shown`,
        state.every(([name, value]) => panel().includes(name) && panel().includes(value)));
    check(`the causes of a ${spark} are lit`, moment.causes.every(([cause]) => t.choice.causes.has(cause)));
  }

  // A message, hit in the midst of its arrow.
  t.choose(null);
  const message = history.messages.find((each) => each.type === "Done" && each.to !== null);
  t.scale.range(message.from - 2, message.to + 2);
  t.drawNow();
  const from = t.drawing.where(message.from);
  const to = t.drawing.where(message.to);
  click({x: from.x + (to.x - from.x) * 0.3, y: from.y + (to.y - from.y) * 0.3});
  check("an arrow leads to where it was received", t.choice.chosen !== null && panel().includes("#"));

  // Links in the panel, keys, filters, modes.
  t.choose(message.to);
  document.querySelector("#panel a").click();
  check("a link leads on", t.choice.chosen !== message.to);
  press("f");
  check("f leads to the failure", t.choice.chosen === history.failure.moment);
  press("ArrowLeft");
  check("an arrow key leads to a neighbour", t.choice.chosen < history.failure.moment);
  press("0");
  t.drawNow();
  check("0 shows everything", t.scale.visible()[1] - t.scale.visible()[0] === history.moments.length);
  press("t");
  t.drawNow();
  check("t is true to time", t.scale.mode === "time" && colours() > 20);
  press("+");
  press("a");
  t.drawNow();
  check("a leaves only causes", t.choice.only && t.drawing.dots <= t.choice.causes.size);
  press("a");
  press("Escape");
  check("escape chooses nothing", t.choice.chosen === null);
  t.commands.fit();
  t.drawNow();
  const all = t.drawing.arrows;
  const tag = document.getElementById("tag");
  tag.value = String(history.tags[0]);
  tag.onchange();
  t.drawNow();
  check("a tag leaves fewer arrows", t.drawing.arrows < all && t.drawing.arrows > 0);
  tag.value = "";
  tag.onchange();
  const lanes = t.drawing.lanes.length;
  document.querySelector("#peers button:last-child").click();
  t.drawNow();
  check("a peer can be hidden", t.drawing.lanes.length === lanes - 1);

  document.getElementById("verdict-of-probe").textContent =
      JSON.stringify({checks, failed, errors: window.errors, elements: document.querySelectorAll("*").length});
}
