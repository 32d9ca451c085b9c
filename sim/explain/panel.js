// The panel beside the picture: one moment, with what came to it, what it did, what led to it, and how the process was.
class Panel {
  constructor(element, history, choose) { Object.assign(this, {element, history, choose}); }

  show(id) {
    this.element.replaceChildren();
    if (id === null) return this.showHelp();
    const {history} = this;
    const moment = history.moments[id];
    this.add("h2", `${history.laneName(moment.lane)}, #${id}`);
    this.add("p", `${seconds(moment.at_ns, 9)} · event ${moment.event} · ${moment.spark}`, "when");
    this.list("what came", moment.ins);
    this.list("what it did", moment.outs);
    this.links("sent", moment.sends.map((message) => [
      message.to, `to ${history.laneName(message.to_lane)}`,
      message.text + (message.to === null ? " (did not arrive)" : ""),
    ]));
    this.links("because of", moment.causes.map(([cause, because]) => [cause, because, this.line(cause)]));
    this.showState(moment, id);
    this.links("calls open then", moment.lane === null ? [] : history.openCalls(moment.lane, id)
      .map((call) => [call.made, `call ${call.call}`, call.what + (call.round ? ` (${call.round})` : "")]));
    this.links("faults then", history.activeFaults(moment.at_ns).map((fault) => [fault.moment, "", fault.text]));
    const slice = [...history.ancestors(id).keys()].filter((each) => each !== id).sort((a, b) => b - a);
    this.links(`what led to it (${slice.length}, latest first)`, slice.slice(0, 80)
      .map((cause) => [cause, history.laneName(history.moments[cause].lane), history.title(history.moments[cause])]));
    this.element.scrollTop = 0;
  }

  showHelp() {
    this.add("h2", this.history.failure ? "Nothing is chosen" : "No promise was broken");
    this.add("p", "Click a moment, an arrow, a bar or a fault: its causes light up, and its state is shown here.", "when");
  }

  line(id) {
    const moment = this.history.moments[id];
    return `${this.history.laneName(moment.lane)}: ${this.history.title(moment)}`;
  }

  showState(moment) {
    if (moment.lane === null) return;
    const before = new Map(this.history.states[moment.before]);
    const after = this.history.states[moment.after];
    if (after.length === 0) return;
    this.add("h3", `state of ${this.history.laneName(moment.lane)}`);
    const table = this.add("table");
    for (const [name, value] of after) {
      const row = table.insertRow();
      row.insertCell().textContent = name;
      const cell = row.insertCell();
      const was = before.get(name);
      if (was !== undefined && was !== value) {
        const old = document.createElement("del");
        old.textContent = `${was} → `;
        cell.append(old);
      }
      cell.append(value);
      if (was !== value && before.size > 0) cell.className = "changed";
    }
  }

  add(tag, text = "", name = "") {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = name;
    this.element.append(element);
    return element;
  }
  list(title, lines) {
    if (lines.length === 0) return;
    this.add("h3", title);
    const list = this.add("ul");
    for (const line of lines) {
      const item = document.createElement("li");
      item.textContent = line;
      list.append(item);
    }
  }
  // Lines that lead to other moments: [moment, word, text].
  links(title, lines) {
    if (lines.length === 0) return;
    this.add("h3", title);
    for (const [moment, word, text] of lines) {
      const link = this.add("a");
      if (word !== "") {
        const why = document.createElement("span");
        why.className = "why";
        why.textContent = `${word} `;
        link.append(why);
      }
      if (moment !== null) {
        const name = document.createElement("b");
        name.textContent = `#${moment} `;
        link.append(name);
        link.onclick = () => this.choose(moment);
      }
      link.append(text);
    }
  }
}
