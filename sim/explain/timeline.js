// The page: what is chosen and shown, and what hands do to it.
const OVERVIEW_BIN = 5;    // pixels
const FIRST_MOMENTS = 70;  // that are shown before anybody asks for others

class Choice {
  constructor(history) {
    this.history = history;
    this.chosen = null;
    this.causes = new Map();  // moments that led to the chosen one
    this.only = false;        // nothing else is shown
    this.tag = null;
    this.hiddenLanes = new Set();
    this.hiddenKinds = new Set(["life"]);
  }
  choose(id) {
    this.chosen = id;
    this.causes = id === null ? new Map() : this.history.ancestors(id);
  }
  showsMoment(moment) {
    if (moment.quiet && this.hiddenKinds.has("life")) return false;
    return this.tag === null || moment.spark === "failure" || this.history.momentHasTag(moment, this.tag);
  }
  showsMessage(message) {
    if (this.hiddenKinds.has(kindOf(message))) return false;
    return this.tag === null || this.history.messageHasTag(message, this.tag);
  }
  showsCall(call) { return !this.hiddenKinds.has("calls") && (this.tag === null || call.tag === this.tag); }
  // Whether it is by this message that one cause leads to the next.
  isCause(message) {
    return this.history.moments[message.to].causes.some(([cause, why]) => cause === message.from && why === "message");
  }
}

class Timeline {
  constructor(data) {
    this.history = new History(data);
    this.choice = new Choice(this.history);
    this.scale = new Scale(this.history);
    this.canvas = document.getElementById("canvas");
    this.overview = document.getElementById("overview");
    this.tip = document.getElementById("tip");
    this.drawing = new Drawing(this.canvas, this.history, this.scale, this.choice);
    this.panel = new Panel(document.getElementById("panel"), this.history, (id) => this.choose(id));
    this.fillHead();
    this.fillControls();
    this.listen();
    this.resize();
    this.choose(this.history.failure ? this.history.failure.moment : null);
    if (this.history.failure) this.toEnd();
  }

  // ---- what is shown ----

  choose(id) {
    this.choice.choose(id);
    this.panel.show(id);
    if (id !== null) {
      this.scale.show(id);
      const lane = this.history.moments[id].lane;
      if (this.choice.hiddenLanes.delete(lane)) this.lanesChanged();
    }
    this.redraw();
  }
  // The failure, and as much of what led to it as can be told apart.
  toEnd() {
    const last = this.history.failure.moment;
    this.scale.range(Math.max(last - FIRST_MOMENTS, Math.min(...this.choice.causes.keys())), last);
    this.redraw();
  }
  toSlice() {
    const ids = [...(this.choice.causes.size > 0 ? this.choice.causes.keys() : this.history.slice)];
    if (ids.length === 0) return;
    this.scale.range(Math.min(...ids), Math.max(...ids));
    this.redraw();
  }
  setMode(mode) {
    this.scale.setMode(mode);
    this.drawing.scaleChanged();
    for (const button of document.getElementById("modes").children) button.classList.toggle("off", button.dataset.mode !== mode);
    this.redraw();
  }
  lanesChanged() {
    for (const button of document.getElementById("peers").children) {
      button.classList.toggle("off", this.choice.hiddenLanes.has(Number(button.dataset.lane)));
    }
    this.resize();
  }
  resize() {
    this.drawing.resize();
    const ratio = window.devicePixelRatio || 1;
    this.overview.width = Math.round(this.overview.clientWidth * ratio);
    this.overview.height = Math.round(this.overview.clientHeight * ratio);
    this.redraw();
  }
  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      this.drawNow();
    });
  }
  drawNow() {
    const began = performance.now();
    this.drawing.draw();
    this.drawOverview();
    this.drawMs = performance.now() - began;
  }

  // The whole run, with the part that is in sight.
  drawOverview() {
    const c = this.overview.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    const width = this.overview.width / ratio;
    const height = this.overview.height / ratio;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const [first, last] = this.scale.limits();
    const span = Math.max(1e-9, last - first);
    const x = (position) => 8 + (position - first) / span * (width - 16);
    const bins = Math.floor(width / OVERVIEW_BIN);
    if (this.densityMode !== this.scale.mode || this.density.length !== bins) {
      this.densityMode = this.scale.mode;
      this.density = new Array(bins).fill(0);
      for (const moment of this.history.moments) {
        const bin = Math.floor(x(this.scale.ofMoment(moment.id)) / OVERVIEW_BIN);
        if (!moment.quiet) this.density[Math.min(bins - 1, bin)] += 1;
      }
    }
    const most = Math.max(1, ...this.density);
    c.fillStyle = this.drawing.colour("--lane");
    this.density.forEach((count, at) => {
      const tall = Math.sqrt(count / most) * (height - 12);
      if (count > 0) c.fillRect(at * OVERVIEW_BIN, height - 4 - tall, OVERVIEW_BIN - 1, tall);
    });
    c.fillStyle = this.drawing.colour("--fault");
    for (const fault of this.history.faults) {
      const x0 = x(this.scale.ofTime(fault.began_ns));
      const x1 = x(this.scale.ofTime(fault.ended_ns < 0 ? this.history.ended_ns : fault.ended_ns));
      c.fillRect(x0, 3, Math.max(2, x1 - x0), 3);
    }
    c.fillStyle = this.drawing.colour("--chosen");
    for (const id of this.choice.causes.keys()) c.fillRect(x(this.scale.ofMoment(id)) - 0.5, height - 4, 1.5, 3);
    if (this.history.failure) {
      c.fillStyle = this.drawing.colour("--bad");
      c.fillRect(x(this.scale.ofMoment(this.history.failure.moment)) - 1, 0, 2, height);
    }
    c.strokeStyle = this.drawing.colour("--ink");
    c.lineWidth = 1;
    c.strokeRect(Math.max(0.5, x(this.scale.from)), 1.5, Math.max(4, Math.min(width - 1, x(this.scale.to)) - Math.max(0.5, x(this.scale.from))), height - 3);
    this.overviewPosition = (at) => first + (at - 8) / (width - 16) * span;
  }

  // ---- the page around it ----

  fillHead() {
    const {failure, moments, messages, calls, lanes, seed, replay} = this.history;
    const promise = document.getElementById("promise");
    promise.textContent = failure ? `${failure.promise} broken` : "all promises kept";
    promise.classList.toggle("kept", !failure);
    document.getElementById("verdict").textContent = failure ? failure.text : "";
    document.title = failure ? `${failure.promise}: ${failure.text}` : "lockstep sim: timeline";
    document.getElementById("counts").textContent =
      `${failure ? `at ${seconds(failure.at_ns)}, event ${failure.event}; ` : ""}${moments.length} moments, ${messages.length} messages, ` +
      `${calls.length} calls, ${lanes.length - 1} peers' lives; seed ${seed}`;
    const code = document.getElementById("replay");
    code.textContent = replay;
    code.onclick = () => navigator.clipboard && navigator.clipboard.writeText(replay);
  }

  fillControls() {
    const {history, choice} = this;
    const chip = (parent, text, colour, press) => {
      const button = document.createElement("button");
      if (colour) {
        const dot = document.createElement("span");
        dot.className = "dot";
        dot.style.background = `var(${colour})`;
        button.append(dot);
      }
      button.append(text);
      button.onclick = () => press(button);
      parent.append(button);
      return button;
    };
    const peers = document.getElementById("peers");
    for (const lane of history.laneOrder) {
      chip(peers, history.lanes[lane].name, null, () => {
        if (!choice.hiddenLanes.delete(lane)) choice.hiddenLanes.add(lane);
        this.lanesChanged();
      }).dataset.lane = lane;
    }
    const kinds = document.getElementById("kinds");
    const titles = {calls: "calls", data: "data", outcomes: "outcomes", membership: "membership", life: "signs of life"};
    for (const [kind, title] of Object.entries(titles)) {
      chip(kinds, title, kind === "calls" ? "--ok" : KINDS[kind].colour, (button) => {
        if (!choice.hiddenKinds.delete(kind)) choice.hiddenKinds.add(kind);
        button.classList.toggle("off", choice.hiddenKinds.has(kind));
        this.redraw();
      }).classList.toggle("off", choice.hiddenKinds.has(kind));
    }
    const modes = document.getElementById("modes");
    for (const mode of ["columns", "time"]) chip(modes, mode, null, () => this.setMode(mode)).dataset.mode = mode;
    modes.lastChild.classList.add("off");
    const tag = document.getElementById("tag");
    tag.append(new Option("all", ""), ...history.tags.map((each) => new Option(String(each), String(each))));
    tag.onchange = () => {
      choice.tag = tag.value === "" ? null : Number(tag.value);
      this.redraw();
    };
    const only = document.getElementById("only");
    only.onchange = () => {
      choice.only = only.checked;
      this.redraw();
    };
    this.commands = {
      "zoom-in": () => this.zoom(0.6),
      "zoom-out": () => this.zoom(1 / 0.6),
      "fit": () => { this.scale.fit(); this.redraw(); },
      "to-slice": () => this.toSlice(),
      "to-failure": () => this.history.failure && this.choose(this.history.failure.moment),
    };
    for (const [id, command] of Object.entries(this.commands)) document.getElementById(id).onclick = command;
    if (!history.failure) document.getElementById("to-failure").disabled = true;
    const search = document.getElementById("search");
    search.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key !== "Enter" || search.value === "") return;
      const found = history.find(search.value, choice.chosen ?? -1);
      search.style.borderColor = found === null ? "var(--bad)" : "";
      if (found !== null) this.choose(found);
    };
  }

  zoom(factor, x = this.scale.left + this.scale.width / 2) {
    this.scale.zoom(factor, x);
    this.redraw();
  }

  listen() {
    const point = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };
    let drag = null;
    this.canvas.onpointerdown = (event) => {
      drag = {...point(event), moved: 0};
      if (event.isTrusted) this.canvas.setPointerCapture(event.pointerId);
    };
    this.canvas.onpointermove = (event) => {
      const {x, y} = point(event);
      if (drag === null) return this.showTip(x, y, event);
      drag.moved += Math.abs(x - drag.x) + Math.abs(y - drag.y);
      if (drag.moved > 4) this.scale.move(drag.x - x);
      document.getElementById("scroll").scrollTop -= y - drag.y;
      drag.x = x;
      drag.y = point(event).y;
      this.redraw();
    };
    this.canvas.onpointerup = (event) => {
      const click = drag !== null && drag.moved <= 4;
      drag = null;
      if (click) this.click(point(event));
    };
    this.canvas.onpointerleave = () => { this.tip.hidden = true; };
    this.canvas.onwheel = (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.scale.move(event.deltaX || event.deltaY);
        this.redraw();
      } else {
        this.zoom(Math.exp(event.deltaY * 0.0015), point(event).x);
      }
    };
    const jump = (event) => {
      const span = this.scale.to - this.scale.from;
      const at = this.overviewPosition(event.clientX - this.overview.getBoundingClientRect().left);
      this.scale.from = at - span / 2;
      this.scale.to = at + span / 2;
      this.scale.move(0);
      this.redraw();
    };
    this.overview.onpointerdown = (event) => {
      this.overview.setPointerCapture(event.pointerId);
      jump(event);
    };
    this.overview.onpointermove = (event) => { if (event.buttons !== 0) jump(event); };
    window.onresize = () => this.resize();
    matchMedia("(prefers-color-scheme: dark)").onchange = () => {
      this.drawing.coloursChanged();
      this.redraw();
    };
    document.onkeydown = (event) => this.key(event);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const chosen = this.choice.chosen;
    const step = (by) => {
      const next = chosen === null ? undefined : this.history.neighbour(chosen, by);
      if (next !== undefined) this.choose(next);
    };
    const keys = {
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6),
      "0": () => this.commands.fit(), "f": () => this.commands["to-failure"](), "s": () => this.toSlice(),
      "a": () => document.getElementById("only").click(),
      "t": () => this.setMode(this.scale.mode === "time" ? "columns" : "time"),
      "c": () => chosen !== null && this.history.moments[chosen].causes.length > 0 && this.choose(this.history.moments[chosen].causes[0][0]),
      "/": () => document.getElementById("search").focus(),
      "ArrowLeft": () => step(-1), "ArrowRight": () => step(1), "Escape": () => this.choose(null),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  click({x, y}) {
    const hit = this.drawing.at(x, y);
    if (hit === null) this.choose(null);
    else this.choose(this.momentOf(hit));
  }
  momentOf({moment, call, fault, message}) {
    if (message) return message.to ?? message.from;
    if (call) return call.ended ?? call.made;
    return fault ? fault.moment : moment;
  }

  showTip(x, y, event) {
    const hit = this.drawing.at(x, y);
    this.canvas.style.cursor = hit === null ? "grab" : "pointer";
    this.tip.hidden = hit === null || hit.between === true;
    if (this.tip.hidden) return;
    this.tip.textContent = this.words(hit);
    const box = this.tip.parentElement.getBoundingClientRect();
    const left = event.clientX - box.left + 14;
    this.tip.style.left = `${Math.min(left, box.width - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.min(event.clientY - box.top + 16, box.height - this.tip.offsetHeight - 8)}px`;
  }
  words({moment, call, fault, message}) {
    const {history} = this;
    if (message) {
      const took = message.to === null ? "did not arrive" : `${((message.received_ns - message.sent_ns) / 1e3).toFixed(1)} µs`;
      return `${history.laneName(message.from_lane)} → ${history.laneName(message.to_lane)}, ${took}: ${message.text}`;
    }
    if (call) return `call ${call.call} of ${history.laneName(call.lane)}: ${call.what}. ${call.outcome || "has not ended"}${call.with.length > 0 ? ` of ${call.with.join(" ")}` : ""}`;
    if (fault) return fault.text;
    return `#${moment} ${seconds(history.moments[moment].at_ns)} ${history.laneName(history.moments[moment].lane)}: ${history.title(history.moments[moment])}`;
  }
}

window.timeline = new Timeline(JSON.parse(document.getElementById("history").textContent));
