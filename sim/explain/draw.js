// The picture: lanes, faults as bands, calls as bars, messages as arrows, views as flags, moments as dots. Only what is in sight is
// drawn, and what falls on the same pixels once.
const GUTTER = 116;
const AXIS = 26;
const FAULT_ROW = 15;
const MOST_ROWS = 8;     // of calls, in one lane
const SPARSE = 500;      // arrows; where there are more, each is fainter
const LABEL_GAP = 26;    // pixels between the flags of two views

const KINDS = {
  data: {types: ["Segment", "Ready", "BlockSize"], colour: "--data"},
  outcomes: {types: ["Done", "Commit", "StopRound"], colour: "--outcome"},
  membership: {types: null, colour: "--membership"},
  life: {types: ["Heartbeat", "Link", "LinkWelcome", "StatusRequest", "StatusReply"], colour: "--life"},
};
const KIND_OF = new Map(Object.entries(KINDS).flatMap(([kind, {types}]) => (types || []).map((type) => [type, kind])));
function kindOf(message) { return KIND_OF.get(message.type) || "membership"; }

function colourOfCall(call) {
  if (call.status === "") return "--open";
  if (call.status === "ok") return call.tag === null ? "--call" : "--ok";
  return call.status === "outcome unknown" ? "--unknown" : "--bad";
}

class Drawing {
  // `choice`: what is chosen and shown; see timeline.js.
  constructor(canvas, history, scale, choice) {
    Object.assign(this, {canvas, history, scale, choice});
    this.colours = new Map();
    this.rows = this.rowsOfCalls();
    this.faultRows = this.rowsOfFaults();
    this.reach = [];
    this.layOut();
    this.scaleChanged();
  }

  colour(name) {
    if (!this.colours.has(name)) {
      this.colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    }
    return this.colours.get(name);
  }
  coloursChanged() { this.colours.clear(); }

  // Calls of one process that overlap lie below each other.
  rowsOfCalls() {
    const rows = new Map();
    const free = this.history.lanes.map(() => []);
    for (const call of [...this.history.calls].sort((a, b) => a.made - b.made)) {
      const ends = free[call.lane];
      let row = ends.findIndex((end) => end !== null && end <= call.made);
      if (row < 0) row = ends.length;
      ends[row] = call.ended;
      rows.set(call, row);
    }
    this.rowsOfLane = free.map((ends) => ends.length);
    return rows;
  }
  rowsOfFaults() {
    const rows = new Map();
    const ends = [];
    const last = [];
    this.nextFault = new Map();  // in the same row
    for (const fault of this.history.faults) {
      let row = ends.findIndex((end) => end < fault.began_ns);
      if (row < 0) row = ends.length;
      ends[row] = fault.ended_ns < 0 ? Infinity : fault.ended_ns;
      rows.set(fault, row);
      if (last[row]) this.nextFault.set(last[row], fault);
      last[row] = fault;
    }
    this.faultHeight = Math.min(ends.length, 6) * FAULT_ROW + (ends.length > 0 ? 8 : 0);
    return rows;
  }

  // Where lanes lie from top to bottom.
  layOut() {
    this.lanes = this.history.laneOrder.filter((lane) => !this.choice.hiddenLanes.has(lane));
    this.top = new Map();
    this.bar = this.lanes.length > 6 ? 5 : 11;  // thin ones have no words
    const top = AXIS + this.faultHeight;
    const least = this.lanes.reduce((sum, lane) => sum + this.heightOf(lane), 0);
    const room = this.canvas.parentElement.clientHeight - 24 - top - least;
    this.spare = Math.max(0, Math.min(70, Math.floor(room / Math.max(1, this.lanes.length))));
    let y = top;
    for (const lane of this.lanes) {
      this.top.set(lane, y);
      y += this.heightOf(lane) + this.spare;
    }
    this.height = y + 6;
  }
  line(lane) { return this.top.get(lane) + 20; }
  barTop(call) { return this.line(call.lane) + 11 + Math.min(this.rows.get(call), MOST_ROWS - 1) * (this.bar + 2); }

  // How far to the right any message up to this one goes: those that begin left of the window may end in it.
  scaleChanged() {
    let furthest = -Infinity;
    this.reach = this.history.messages.map((message) => furthest = Math.max(furthest, this.endOf(message)));
  }
  beginOf(message) {
    if (this.scale.mode === "time") return message.sent_ns;
    return message.from === null ? this.scale.ofTime(message.sent_ns) : this.scale.ofMoment(message.from);
  }
  endOf(message) {
    return message.to === null ? this.beginOf(message) : this.scale.ofMoment(message.to);
  }

  resize() {
    this.layOut();
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.parentElement.clientWidth;
    const height = Math.max(this.height, this.canvas.parentElement.clientHeight);
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.size = {width, height, ratio};
    this.scale.left = GUTTER;
    this.scale.width = Math.max(50, width - GUTTER - 8);
  }

  draw() {
    const c = this.c = this.canvas.getContext("2d");
    const {width, height, ratio} = this.size;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    [this.first, this.end] = this.scale.visible();
    this.drawAxis();
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, width - GUTTER, height);
    c.clip();
    this.drawFaults();
    for (const lane of this.lanes) this.drawLife(lane);
    this.drawMessages();
    this.drawCalls();
    this.drawMoments();
    this.drawViews();
    this.drawFailure();
    c.restore();
    this.drawNames();
  }

  // 1: as it is; faint when something else is chosen; 0: not at all.
  weight(isCause) { return this.choice.causes.size === 0 || isCause ? 1 : this.choice.only ? 0 : 0.22; }

  drawAxis() {
    const {c, size} = this;
    c.strokeStyle = this.colour("--rule");
    c.fillStyle = this.colour("--faint");
    c.lineWidth = 1;
    c.textAlign = "center";
    for (const {position, label} of this.scale.ticks()) {
      const x = Math.round(this.scale.x(position)) + 0.5;
      if (x < GUTTER + 30) continue;
      c.beginPath();
      c.moveTo(x, AXIS - 6);
      c.lineTo(x, size.height);
      c.stroke();
      c.fillText(label, x, 10);
    }
    if (this.history.healed_ns >= 0) this.mark(this.history.healed_ns, "faults stop", "--ok");
  }
  mark(ns, label, colour) {
    const {c} = this;
    const x = Math.round(this.scale.x(this.scale.ofTime(ns))) + 0.5;
    if (x < GUTTER) return;
    c.save();
    c.strokeStyle = c.fillStyle = this.colour(colour);
    c.setLineDash([3, 3]);
    c.beginPath();
    c.moveTo(x, AXIS - 4);
    c.lineTo(x, this.size.height);
    c.stroke();
    c.textAlign = "left";
    c.fillText(label, x + 4, this.height + 8 < this.size.height ? this.height + 8 : AXIS);
    c.restore();
  }

  drawFaults() {
    const {c, history, scale} = this;
    for (const fault of history.faults) {
      const x0 = scale.x(scale.ofMoment(fault.moment));
      const x1 = Math.max(x0 + 3, scale.x(scale.ofTime(fault.ended_ns < 0 ? history.ended_ns : fault.ended_ns)));
      if (x1 < GUTTER || x0 > this.size.width) continue;
      const y = AXIS + 2 + Math.min(this.faultRows.get(fault), 5) * FAULT_ROW;
      c.globalAlpha = this.weight(this.choice.causes.has(fault.moment)) || 0.1;
      c.fillStyle = this.colour("--fault");
      c.fillRect(x0, y, x1 - x0, FAULT_ROW - 3);
      const label = Math.max(x0, GUTTER) + 4;
      const wide = c.measureText(fault.text).width + 8;
      const inside = x1 - Math.max(x0, GUTTER) > wide;
      const next = this.nextFault.get(fault);
      const free = next === undefined ? this.size.width : scale.x(scale.ofTime(next.began_ns));
      const right = x1 + wide < free;
      c.fillStyle = inside ? "#fff" : this.colour("--fault");
      c.textAlign = inside || right ? "left" : "right";
      if (inside || right || next === undefined) c.fillText(fault.text, inside ? label : right ? x1 + 4 : x0 - 4, y + 6.5);
      if (x1 - x0 < 4) {  // a blow: a line through all whom it hits
        c.fillStyle = this.colour("--fault");
        for (const lane of this.lanesOf(fault)) c.fillRect(x0, this.top.get(lane), 1.5, this.heightOf(lane) + this.spare);
        continue;
      }
      c.globalAlpha *= 0.1;
      c.fillStyle = this.colour("--fault");
      for (const lane of this.lanesOf(fault)) c.fillRect(x0, this.top.get(lane) + 1, x1 - x0, this.heightOf(lane) + this.spare - 1);
    }
    c.globalAlpha = 1;
  }
  lanesOf(fault) { return this.lanes.filter((lane) => fault.hosts.includes(this.history.lanes[lane].host)); }
  heightOf(lane) { return 40 + Math.min(this.rowsOfLane[lane], MOST_ROWS) * (this.bar + 2); }

  drawLife(lane) {
    const {c, history, scale} = this;
    const life = history.lanes[lane];
    const y = this.line(lane) + 0.5;
    const ids = history.ofLane[lane];
    const x0 = scale.x(scale.ofMoment(ids[0]));
    const x1 = scale.x(scale.ofMoment(life.ended_ns < 0 ? history.moments.length - 1 : ids[ids.length - 1]));
    c.strokeStyle = this.colour("--lane");
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(Math.max(x0, GUTTER), y);
    c.lineTo(Math.max(Math.min(x1, this.size.width), GUTTER), y);
    c.stroke();
    if (life.ended_ns < 0 || x1 < GUTTER) return;
    c.strokeStyle = this.colour(life.killed ? "--fault" : "--lane");
    c.beginPath();
    c.moveTo(x1 - 5, y - 5);
    c.lineTo(x1 + 5, y + 5);
    c.moveTo(x1 + 5, y - 5);
    c.lineTo(x1 - 5, y + 5);
    c.stroke();
  }

  drawCalls() {
    const {c, scale, choice} = this;
    for (const call of this.history.calls) {
      if (!this.top.has(call.lane) || !choice.showsCall(call)) continue;
      const x0 = scale.x(scale.ofMoment(call.made));
      const x1 = Math.max(x0 + 2, call.ended === null ? this.size.width + 10 : scale.x(scale.ofMoment(call.ended)));
      if (x1 < GUTTER || x0 > this.size.width) continue;
      const weight = this.weight(choice.causes.has(call.made) || choice.causes.has(call.ended));
      if (weight === 0) continue;
      const y = this.barTop(call);
      c.globalAlpha = weight * (call.tag === null ? 0.55 : 0.9);
      c.fillStyle = this.colour(colourOfCall(call));
      c.beginPath();
      c.roundRect(x0, y, x1 - x0, this.bar, 3);
      c.fill();
      const from = Math.max(x0, GUTTER) + 4;
      const room = Math.min(x1, this.size.width) - from - 3;
      if (room < 24 || this.bar < 8) continue;
      c.globalAlpha = weight;
      c.fillStyle = "#fff";
      c.textAlign = "left";
      c.font = "9.5px system-ui, sans-serif";
      c.fillText(this.fitted(call.status === "ok" || call.status === "" ? call.what : `${call.what}: ${call.status}`, room), from, y + this.bar / 2 + 0.5);
      c.font = "11px system-ui, sans-serif";
    }
    c.globalAlpha = 1;
  }
  fitted(text, room) {
    if (this.c.measureText(text).width <= room) return text;
    const letters = Math.floor(room / 5);
    return letters < 3 ? "" : `${text.slice(0, letters - 1)}…`;
  }

  drawMessages() {
    const {c, scale, history, choice} = this;
    const start = lowerBound(this.reach, scale.from, (x) => x);
    const batches = new Map();  // by colour, weight and dashes: one path each
    const seen = new Set();
    this.arrows = 0;
    for (let i = start; i < history.messages.length; i++) {
      const message = history.messages[i];
      const begin = this.beginOf(message);
      if (begin > scale.to) break;
      if (!this.top.has(message.from_lane) || !this.top.has(message.to_lane) || !choice.showsMessage(message)) continue;
      const cause = choice.causes.has(message.to) && choice.causes.has(message.from) && choice.isCause(message);
      const weight = this.weight(cause);
      if (weight === 0) continue;
      const x0 = scale.x(begin);
      const lost = message.to === null;
      const x1 = lost ? x0 + 14 : scale.x(this.endOf(message));
      const key = `${Math.round(x0)} ${Math.round(x1)} ${message.from_lane} ${message.to_lane}`;
      if (!cause && seen.has(key)) continue;
      seen.add(key);
      const style = `${cause && choice.causes.size > 0 ? "--cause" : lost ? "--fault" : KINDS[kindOf(message)].colour} ${weight} ${lost}`;
      if (!batches.has(style)) batches.set(style, []);
      batches.get(style).push([x0, this.line(message.from_lane), x1, this.line(message.to_lane), lost]);
      this.arrows += 1;
    }
    for (const [style, arrows] of batches) {
      const [colour, weight, lost] = style.split(" ");
      c.strokeStyle = c.fillStyle = this.colour(colour);
      const dense = colour === "--cause" ? 1 : Math.max(0.08, Math.sqrt(SPARSE / Math.max(SPARSE, this.arrows)));
      c.globalAlpha = Number(weight) * dense * 0.85;
      c.lineWidth = colour === "--cause" ? 1.6 : 1;
      c.setLineDash(lost === "true" ? [3, 3] : []);
      c.beginPath();
      for (const [x0, y0, x1, y1, isLost] of arrows) {
        const part = isLost ? 0.45 : 1;
        c.moveTo(x0, y0);
        c.lineTo(x1, y0 + (y1 - y0) * part);
      }
      c.stroke();
      c.setLineDash([]);
      if (arrows.length < 2 * SPARSE) this.drawHeads(arrows);
    }
    c.globalAlpha = 1;
  }
  drawHeads(arrows) {
    const {c} = this;
    c.beginPath();
    for (const [x0, y0, x1, y1, lost] of arrows) {
      if (lost) continue;
      const length = Math.hypot(x1 - x0, y1 - y0) || 1;
      const dx = (x1 - x0) / length;
      const dy = (y1 - y0) / length;
      const tx = x1 - dx * 4;
      const ty = y1 - dy * 4;
      c.moveTo(tx, ty);
      c.lineTo(tx - dx * 7 - dy * 3, ty - dy * 7 + dx * 3);
      c.lineTo(tx - dx * 7 + dy * 3, ty - dy * 7 - dx * 3);
      c.closePath();
    }
    c.fill();
  }

  drawMoments() {
    const {c, scale, history, choice} = this;
    const lastX = new Map();
    this.dots = 0;
    for (let id = this.first; id < this.end; id++) {
      const moment = history.moments[id];
      if (!this.top.has(moment.lane) || !choice.showsMoment(moment)) continue;
      const cause = choice.causes.has(id);
      const weight = this.weight(cause);
      if (weight === 0) continue;
      const x = scale.x(scale.ofMoment(id));
      if (!cause && x - (lastX.get(moment.lane) ?? -9) < 0.8) continue;
      lastX.set(moment.lane, x);
      c.globalAlpha = weight;
      c.fillStyle = this.colour(id === choice.chosen ? "--chosen" : cause && choice.causes.size > 0 ? "--cause" : "--moment");
      c.beginPath();
      c.arc(x, this.line(moment.lane), id === choice.chosen ? 6 : moment.quiet ? 1.5 : moment.spark === "kernel" ? 2 : 3, 0, 7);
      c.fill();
      this.dots += 1;
    }
    c.globalAlpha = 1;
  }

  drawViews() {
    const {c, scale} = this;
    c.textAlign = "left";
    const lastX = new Map();
    for (const view of this.history.views) {
      if (!this.top.has(view.lane) || view.moment < this.first || view.moment >= this.end) continue;
      const x = Math.round(scale.x(scale.ofMoment(view.moment))) + 0.5;
      const y = this.line(view.lane);
      c.globalAlpha = this.weight(this.choice.causes.has(view.moment));
      c.strokeStyle = c.fillStyle = this.colour("--view");
      c.lineWidth = 1.2;
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x, y - 17);
      c.stroke();
      if (x - (lastX.get(view.lane) ?? -LABEL_GAP) < LABEL_GAP) continue;
      lastX.set(view.lane, x);
      const label = `v${view.number}`;
      const width = c.measureText(label).width + 6;
      c.fillRect(x, y - 18, width, 12);
      c.fillStyle = "#fff";
      c.fillText(label, x + 3, y - 11.5);
    }
    c.globalAlpha = 1;
  }

  drawFailure() {
    const {c, history, scale} = this;
    if (!history.failure) return;
    const x = scale.x(scale.ofMoment(history.failure.moment));
    if (x < GUTTER || x > this.size.width) return;
    c.strokeStyle = c.fillStyle = this.colour("--bad");
    c.lineWidth = 1.5;
    c.setLineDash([5, 3]);
    c.beginPath();
    c.moveTo(x, AXIS - 4);
    c.lineTo(x, this.height);
    c.stroke();
    c.setLineDash([]);
    const label = `${history.failure.promise} broken`;
    const right = x + c.measureText(label).width + 12 > this.size.width;
    c.textAlign = right ? "right" : "left";
    c.font = "bold 11px system-ui, sans-serif";
    c.fillText(label, right ? x - 5 : x + 5, this.height - 4);
    c.font = "11px system-ui, sans-serif";
    const lane = history.moments[history.failure.moment].lane;
    if (!this.top.has(lane)) return;
    const y = this.line(lane);
    c.beginPath();
    for (const [i, angle] of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].entries()) {  // a star
      const r = i % 2 === 0 ? 9 : 4;
      c.lineTo(x + r * Math.sin(angle * Math.PI / 5), y - r * Math.cos(angle * Math.PI / 5));
    }
    c.fill();
  }

  drawNames() {
    const {c} = this;
    c.fillStyle = this.colour("--paper");
    c.fillRect(0, 0, GUTTER - 2, this.size.height);
    c.textAlign = "left";
    if (this.faultHeight > 0) {
      c.fillStyle = this.colour("--fault");
      c.fillText("faults", 14, AXIS + 9);
    }
    const chosen = this.choice.chosen === null ? null : this.history.moments[this.choice.chosen].lane;
    this.lanes.forEach((lane, i) => {
      const top = this.top.get(lane);
      c.strokeStyle = this.colour("--rule");
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(0, top + 0.5);
      c.lineTo(i === 0 ? this.size.width : GUTTER, top + 0.5);
      c.stroke();
      c.fillStyle = this.colour(lane === chosen ? "--chosen" : "--ink");
      c.font = "600 12px system-ui, sans-serif";
      c.fillText(this.history.lanes[lane].name, 14, this.line(lane));
    });
    c.font = "11px system-ui, sans-serif";
  }

  // ---- what lies at a point ----

  where(id) {
    const moment = this.history.moments[id];
    const y = this.top.has(moment.lane) ? this.line(moment.lane) : AXIS + 8;
    return {x: this.scale.x(this.scale.ofMoment(id)), y};
  }

  // {moment}, {call}, {message}, {fault}, or null.
  at(x, y) {
    return this.momentAt(x, y) || this.callAt(x, y) || this.faultAt(x, y) || this.messageAt(x, y) || this.laneAt(x, y);
  }
  momentAt(x, y) {
    let best = null;
    for (const lane of this.lanes) {
      if (Math.abs(this.line(lane) - y) > 9) continue;
      for (const id of this.near(lane, x)) {
        const far = Math.abs(this.scale.x(this.scale.ofMoment(id)) - x);
        if (far <= 8 && (best === null || far < best.far)) best = {moment: id, far};
      }
    }
    return best;
  }
  // The neighbours of a point in a lane: those that are shown.
  near(lane, x) {
    const ids = this.history.ofLane[lane];
    const position = this.scale.position(x);
    const place = lowerBound(ids, position, (id) => this.scale.ofMoment(id));
    const found = [];
    for (const step of [-1, 1]) {
      for (let i = step < 0 ? place - 1 : place; i >= 0 && i < ids.length; i += step) {
        if (Math.abs(this.scale.x(this.scale.ofMoment(ids[i])) - x) > 9) break;
        if (this.choice.showsMoment(this.history.moments[ids[i]])) { found.push(ids[i]); break; }
      }
    }
    return found;
  }
  callAt(x, y) {
    for (const call of this.history.calls) {
      if (!this.top.has(call.lane) || !this.choice.showsCall(call)) continue;
      const top = this.barTop(call);
      if (y < top || y > top + this.bar) continue;
      const x0 = this.scale.x(this.scale.ofMoment(call.made));
      const x1 = call.ended === null ? Infinity : this.scale.x(this.scale.ofMoment(call.ended));
      if (x >= x0 - 1 && x <= Math.max(x1, x0 + 2) + 1) return {call};
    }
    return null;
  }
  faultAt(x, y) {
    if (y < AXIS || y > AXIS + this.faultHeight) return null;
    for (const fault of this.history.faults) {
      const top = AXIS + 2 + Math.min(this.faultRows.get(fault), 5) * FAULT_ROW;
      const x0 = this.scale.x(this.scale.ofMoment(fault.moment));
      const end = fault.ended_ns < 0 ? this.history.ended_ns : fault.ended_ns;
      const x1 = Math.max(x0 + 3, this.scale.x(this.scale.ofTime(end)));
      if (y >= top && y <= top + FAULT_ROW && x >= x0 - 3 && x <= x1 + 3) return {fault};
    }
    return null;
  }
  messageAt(x, y) {
    let best = null;
    const start = lowerBound(this.reach, this.scale.from, (value) => value);
    for (let i = start; i < this.history.messages.length; i++) {
      const message = this.history.messages[i];
      if (this.beginOf(message) > this.scale.to) break;
      if (!this.top.has(message.from_lane) || !this.top.has(message.to_lane) || !this.choice.showsMessage(message)) continue;
      const x0 = this.scale.x(this.beginOf(message));
      const y0 = this.line(message.from_lane);
      const x1 = message.to === null ? x0 + 14 : this.scale.x(this.endOf(message));
      const y1 = message.to === null ? y0 + (this.line(message.to_lane) - y0) * 0.45 : this.line(message.to_lane);
      if (x < Math.min(x0, x1) - 4 || x > Math.max(x0, x1) + 4 || y < Math.min(y0, y1) || y > Math.max(y0, y1)) continue;
      const far = Math.abs((x1 - x0) * (y0 - y) - (x0 - x) * (y1 - y0)) / (Math.hypot(x1 - x0, y1 - y0) || 1);
      if (far < 5 && (best === null || far < best.far)) best = {message, far};
    }
    return best;
  }
  // On the line of a process: how it is there.
  laneAt(x, y) {
    const lane = this.lanes.find((each) => Math.abs(this.line(each) - y) <= 9);
    if (lane === undefined || x < GUTTER) return null;
    const ids = this.history.ofLane[lane];
    const place = lowerBound(ids, this.scale.position(x), (id) => this.scale.ofMoment(id)) - 1;
    return place < 0 ? null : {moment: ids[place], between: true};
  }
}
