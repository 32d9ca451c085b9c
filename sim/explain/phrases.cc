#include "sim/explain/phrases.h"

#include <algorithm>

#include "core/base/overloaded.h"
#include "core/wire/describe.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

std::string_view name_of(const JobWork& work) {
  return std::visit(overloaded{
                        [](const HashJob&) { return std::string_view("hashed"); },
                        [](const DigestJob&) { return std::string_view("digested"); },
                        [](const CopyJob&) { return std::string_view("copied"); },
                        [](const VerifyJob&) { return std::string_view("verified"); },
                        [](const FoldJob&) { return std::string_view("folded"); },
                        [](const FoldAllJob&) { return std::string_view("gathered and folded"); },
                        [](const EncodeJob&) { return std::string_view("encoded"); },
                        [](const RecodeJob&) { return std::string_view("folded and encoded"); },
                        [](const GatherJob&) { return std::string_view("gathered and encoded"); },
                        [](const CheckJob&) { return std::string_view("verified"); },
                        [](const DecodeJob&) { return std::string_view("decoded"); },
                        [](const UpdateResidualJob&) { return std::string_view("compared with what went"); },
                    },
                    work);
}

std::string_view name_of(Program::Phase phase) {
  switch (phase) {
    case Program::Phase::kConnecting: return "connecting";
    case Program::Phase::kSyncing: return "syncing";
    case Program::Phase::kStepping: return "stepping";
    case Program::Phase::kAdmitting: return "admitting";
    case Program::Phase::kLeaving: return "leaving";
    case Program::Phase::kOver: return "over";
  }
  return "";
}

std::string text_of(const wire::Message& message) {
  constexpr std::string_view kKey = "key: ";
  std::string text = wire::describe(message);
  for (std::size_t at = 0; (at = text.find(kKey, at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(",}", at), text.size());
    std::string round = text.substr(at + kKey.size(), end - at - kKey.size());
    std::replace(round.begin(), round.end(), ' ', '.');
    std::replace(round.begin(), round.end(), '#', 'u');
    round.insert(0, "round: ");
    text.replace(at, end - at, round);
    at += round.size();
  }
  return text;
}

std::string host_name(std::uint32_t host) { return host == 0 ? "coordinator" : "h" + std::to_string(host); }

std::string text_of_fault(const Entry& fault) {
  std::string text(sim::name_of(fault.fault));
  text += " " + host_name(fault.a);
  if (is_of_pair(fault.fault)) {
    text += fault.fault == Fault::kCut || fault.fault == Fault::kFlip || fault.fault == Fault::kDrip ? " -> " : " <-> ";
    text += fault.a == fault.b ? "all" : host_name(fault.b);
  }
  if (fault.number > 1) text += " x " + std::to_string(fault.number);
  if (fault.length.ns > 0) text += " for " + std::to_string(fault.length.ns / 1'000'000) + " ms";
  return text;
}

}  // namespace lockstep::sim
