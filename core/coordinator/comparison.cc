#include "core/coordinator/comparison.h"

#include <algorithm>

namespace lockstep::coordinator {

Comparison::Questions Comparison::begin() {
  Questions questions;
  for (Side& side : sides_) {
    side.asked = true;
    questions.emplace_back(side.peer, wire::AskOutline{key_, attempt_, of_});
  }
  return questions;
}

Comparison::Side* Comparison::asked(PeerId peer) {
  const auto at =
      std::find_if(sides_.begin(), sides_.end(), [&](const Side& side) { return side.peer == peer && side.asked; });
  return at == sides_.end() ? nullptr : &*at;
}

std::optional<Comparison::Questions> Comparison::take(PeerId from, wire::StateOutline outline) {
  Side* side = asked(from);
  if (side == nullptr || !where_.empty()) return std::nullopt;
  side->asked = false;
  if (!outline_) {
    outline_ = std::move(outline);
    return Questions{};
  }
  const wire::StateOutline first = *std::exchange(outline_, std::nullopt);
  Questions questions =
      side == &sides_[0] ? ask_where_they_differ(outline, first) : ask_where_they_differ(first, outline);
  if (!watched_ || of_ == wire::Outlined::kContents || !where_.empty()) return questions;
  of_ = wire::Outlined::kContents;
  return begin();
}

Comparison::Questions Comparison::ask_where_they_differ(const wire::StateOutline& a, const wire::StateOutline& b) {
  if (a.piece_bytes != b.piece_bytes) {
    where_ = "pieces";
    sides_[0].words = std::to_string(a.piece_bytes) + " bytes";
    sides_[1].words = std::to_string(b.piece_bytes) + " bytes";
    return {};
  }
  if (a.tensors == b.tensors && a.values == b.values && a.revision != b.revision) {
    where_ = "the revision";
    sides_[0].words = sides_[1].words = std::to_string(b.revision) + ", not " + std::to_string(a.revision);
    return {};
  }
  const bool is_value = a.tensors == b.tensors;
  const std::array lists = {is_value ? &a.values : &a.tensors, is_value ? &b.values : &b.tensors};
  const auto differ = std::mismatch(lists[0]->begin(), lists[0]->end(), lists[1]->begin(), lists[1]->end());
  const auto index = static_cast<std::size_t>(differ.first - lists[0]->begin());
  Questions questions;
  const std::array outlines = {&a, &b};
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (outlines[i]->tensors.empty() && outlines[i]->values.empty()) sides_[i].words = "no tensors and no values";
    if (index >= lists[i]->size()) continue;
    // Where contents differ, manifests do not.
    if (of_ == wire::Outlined::kContents && !questions.empty()) break;
    sides_[i].asked = true;
    questions.emplace_back(sides_[i].peer, wire::AskEntry{key_, attempt_, is_value, static_cast<std::uint32_t>(index)});
  }
  if (!questions.empty()) where_ = (is_value ? "value " : "tensor ") + std::to_string(index);
  return questions;
}

std::optional<Comparison::Questions> Comparison::take(PeerId from, wire::StateEntry entry) {
  Side* side = asked(from);
  if (side == nullptr || where_.empty()) return std::nullopt;
  side->asked = false;
  side->words = std::move(entry.text);
  return Questions{};
}

std::string Comparison::text() const {
  std::string difference = texts_.otherwise;
  if (!where_.empty() && of_ == wire::Outlined::kContents) {
    const bool said = over();  // one side is asked for the entry, and has sent it
    difference = ": first in " + where_;
    if (said) difference += " (" + (sides_[0].words == kNone ? sides_[1] : sides_[0]).words + ")";
  } else if (!where_.empty()) {
    difference = (watched_ ? ": their descriptions differ: " : ": ") + where_;
    for (const Side& side : sides_) {
      if (!over()) break;  // given up: a side that has not answered may have it
      difference += (&side == &sides_[0] ? ": " : "; ") + side.name + ": " + side.words;
    }
    difference += kStateTheSame;
  }
  return texts_.before + difference + texts_.after;
}

}  // namespace lockstep::coordinator
