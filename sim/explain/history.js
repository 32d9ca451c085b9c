// What happened, with the indices that a picture needs. The data is what `lockstep sim explain --json` writes.
class History {
  constructor(data) {
    Object.assign(this, data);
    this.ofLane = this.lanes.map(() => []);
    this.moments.forEach((moment, id) => {
      moment.id = id;
      moment.sends = [];
      moment.gets = [];
      if (moment.lane !== null) this.ofLane[moment.lane].push(id);
    });
    this.messages.forEach((message, index) => {
      message.index = index;
      if (message.from !== null) this.moments[message.from].sends.push(message);
      if (message.to !== null) this.moments[message.to].gets.push(message);
    });
    this.calls = this.calls.filter((call) => call.made !== null);
    this.laneOrder = this.lanes.map((_, lane) => lane).sort((a, b) => this.lanes[a].host - this.lanes[b].host || a - b);
    this.tags = [...new Set(this.calls.map((call) => call.tag).filter((tag) => tag !== null))].sort((a, b) => a - b);
    this.tagSubjects = new Map();
    this.subjects.forEach((subject, index) => {
      const tag = /\.t(\d+)\.u/.exec(subject);
      if (tag) this.tagSubjects.set(index, Number(tag[1]));
    });
  }

  laneName(lane) { return lane === null ? "nemesis" : this.lanes[lane].name; }

  // Whether a moment, a message or a call has to do with a tag.
  momentHasTag(moment, tag) { return moment.subjects.some((subject) => this.tagSubjects.get(subject) === tag); }
  messageHasTag(message, tag) {
    const found = /\.t(\d+)\.u/.exec(message.text);
    return found !== null && Number(found[1]) === tag;
  }

  title(moment) {
    const words = moment.outs.length > 0 ? moment.outs : moment.ins;
    if (words.length > 0) return words[0] + (words.length > 1 ? ` (and ${words.length - 1} more)` : "");
    return moment.spark;
  }

  // From effects to causes, the strongest reasons first, as sim/explain/slice.cc does it. Moments with their distance.
  ancestors(id, most = 400) {
    const far = new Map();
    const open = [[0, id]];
    while (open.length > 0 && far.size < most) {
      let best = 0;
      for (let i = 1; i < open.length; i++) {
        if (open[i][0] < open[best][0] || (open[i][0] === open[best][0] && open[i][1] > open[best][1])) best = i;
      }
      const [distance, moment] = open.splice(best, 1)[0];
      if (distance > this.radius) break;
      if (far.has(moment)) continue;
      far.set(moment, distance);
      for (const [cause, because] of this.moments[moment].causes) {
        if (!far.has(cause)) open.push([distance + this.distances[because], cause]);
      }
    }
    return far;
  }

  // The last moment of a process that is not after this one.
  lastOfLane(lane, id) {
    const ids = this.ofLane[lane];
    const place = lowerBound(ids, id + 1, (x) => x) - 1;
    return place < 0 ? null : ids[place];
  }
  neighbour(id, step) {
    const ids = this.ofLane[this.moments[id].lane] || [];
    return ids[ids.indexOf(id) + step];
  }

  // How a process is at (just after) a moment of any process.
  stateOf(lane, id) {
    const last = this.lastOfLane(lane, id);
    return last === null ? [] : this.states[this.moments[last].after];
  }
  openCalls(lane, id) {
    return this.calls.filter((call) => call.lane === lane && call.made <= id && (call.ended === null || call.ended > id));
  }
  activeFaults(ns) {
    return this.faults.filter((fault) => fault.began_ns <= ns && (fault.ended_ns < 0 || fault.ended_ns >= ns));
  }

  find(text, after) {
    const number = /^#?(\d+)$/.exec(text.trim());
    if (number && Number(number[1]) < this.moments.length) return Number(number[1]);
    const wanted = text.toLowerCase();
    const has = (moment) => [...moment.ins, ...moment.outs].some((words) => words.toLowerCase().includes(wanted));
    for (let i = 1; i <= this.moments.length; i++) {
      const id = (after + i) % this.moments.length;
      if (has(this.moments[id])) return id;
    }
    return null;
  }
}

// The first place in a sorted list whose key is at least `value`.
function lowerBound(list, value, key) {
  let lo = 0;
  let hi = list.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (key(list[middle]) < value) lo = middle + 1; else hi = middle;
  }
  return lo;
}

function seconds(ns, digits = 6) { return `${(ns / 1e9).toFixed(digits)} s`; }
