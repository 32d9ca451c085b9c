// Where moments lie from left to right: each in a column of its own, as in a space-time diagram, or true to time. Inside, a
// position is a column or nanoseconds; both only grow with a moment's number.
class Scale {
  constructor(history) {
    this.history = history;
    this.mode = "columns";
    this.left = 0;
    this.width = 1000;
    this.columns = new Float64Array(history.moments.length);
    let column = 0;
    history.moments.forEach((moment, id) => {
      this.columns[id] = moment.quiet ? column + 0.5 : ++column;  // signs of life lie between
    });
    this.range(0, history.moments.length - 1);
  }

  setMode(mode) {
    const [first, last] = this.visible();
    this.mode = mode;
    this.range(first, Math.max(first, last - 1));
  }

  ofMoment(id) { return this.mode === "columns" ? this.columns[id] : this.history.moments[id].at_ns; }
  ofTime(ns) {
    if (this.mode === "time") return ns;
    const moments = this.history.moments;
    const next = lowerBound(moments, ns, (moment) => moment.at_ns);
    if (next === 0) return this.columns[0] || 0;
    if (next === moments.length) return this.columns[next - 1] + 1;
    const before = moments[next - 1].at_ns;
    const part = (ns - before) / Math.max(1, moments[next].at_ns - before);
    return this.columns[next - 1] + part * (this.columns[next] - this.columns[next - 1]);
  }
  timeOf(position) {
    if (this.mode === "time") return position;
    const moments = this.history.moments;
    const next = Math.min(lowerBound(moments, position, (moment) => this.columns[moment.id]), moments.length - 1);
    return moments.length === 0 ? 0 : moments[next].at_ns;
  }

  x(position) { return this.left + (position - this.from) / (this.to - this.from) * this.width; }
  position(x) { return this.from + (x - this.left) / this.width * (this.to - this.from); }

  // The moments in sight: [first, end).
  visible() {
    const key = (moment) => this.ofMoment(moment.id);
    return [lowerBound(this.history.moments, this.from, key), lowerBound(this.history.moments, this.to, key)];
  }

  range(first, last) {
    const moments = this.history.moments;
    if (moments.length === 0) { this.from = 0; this.to = 1; return; }
    const from = this.ofMoment(Math.max(0, first));
    const to = this.ofMoment(Math.min(moments.length - 1, last));
    const margin = Math.max((to - from) * 0.03, this.mode === "columns" ? 1.5 : 2000);
    this.from = from - margin;
    this.to = to + margin;
  }
  fit() { this.range(0, this.history.moments.length - 1); }

  limits() {
    const last = this.history.moments.length - 1;
    return last < 0 ? [0, 1] : [this.ofMoment(0), this.ofMoment(last)];
  }
  zoom(factor, x) {
    const [first, last] = this.limits();
    const fixed = this.position(x);
    const least = this.mode === "columns" ? 4 : 100;
    const span = Math.min(Math.max((this.to - this.from) * factor, least), (last - first) * 1.2 + least);
    const part = (fixed - this.from) / (this.to - this.from);
    this.from = fixed - part * span;
    this.to = this.from + span;
    this.move(0);
  }
  move(pixels) {
    const span = this.to - this.from;
    const [first, last] = this.limits();
    const from = this.from + pixels / this.width * span;
    this.from = Math.min(Math.max(from, first - span * 0.5), last - span * 0.5);
    this.to = this.from + span;
  }
  show(id) {
    const position = this.ofMoment(id);
    const span = this.to - this.from;
    if (position > this.from + span * 0.05 && position < this.to - span * 0.05) return;
    this.from = position - span / 2;
    this.to = this.from + span;
  }

  ticks() {
    const count = Math.max(2, Math.floor(this.width / 130));
    if (this.mode === "columns") {
      return Array.from({length: count}, (_, i) => this.from + (i + 0.5) * (this.to - this.from) / count)
        .map((position) => ({position, label: seconds(this.timeOf(position))}));
    }
    const rough = (this.to - this.from) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const digits = Math.max(0, Math.min(9, 9 - Math.floor(Math.log10(step))));
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at < this.to; at += step) {
      ticks.push({position: at, label: seconds(at, digits)});
    }
    return ticks;
  }
}
