#include "transport/journal.h"

#include <fmt/format.h>

#include <variant>

#include <nlohmann/json.hpp>

#include "core/base/overloaded.h"

namespace lockstep::transport::journal {
namespace {

using Json = nlohmann::json;

// Hexadecimal digits of a peer id or a digest.
std::string hex(const auto& of) { return fmt::format("{:016x}{:016x}", of.high, of.low); }

Json line(PeerId by, const char* what) { return {{"peer", hex(by)}, {"what", what}}; }

// Names and texts come from other hosts; invalid UTF-8 is replaced, not rejected.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string call(PeerId by, CallId id, const char* kind, const Json& more = Json::object()) {
  Json json = line(by, "called");
  json["call"] = id.value;
  json["kind"] = kind;
  json.update(more);
  return dump(json);
}

Json arguments(const ring::Request& request) {
  Json counts = Json::array();
  for (const ring::Tensor& tensor : request.tensors) counts.push_back(tensor.count);
  Json json = {{"collective", wire::name_of(request.collective)},
               {"type", lockstep::name_of(request.type)},
               {"op", lockstep::name_of(request.op)},
               {"tag", request.tag.value},
               {"retry", request.retry},
               {"minimum_world", request.minimum_world},
               {"root", hex(request.root)},
               {"counts", counts}};
  for (const ring::Block& block : request.blocks)
    json["blocks"].push_back({{"to", hex(block.to)}, {"count", block.count}});
  if (request.algorithm) json["algorithm"] = name_of(*request.algorithm);
  if (!request.formats.native()) {
    json["formats"] = {{"up", lockstep::name_of(request.formats.up)},
                       {"down", lockstep::name_of(request.formats.down)}};
  }
  if (request.weight) json["weight"] = *request.weight;
  if (request.state) {
    json["state"] = {{"revision", request.state->revision}, {"strategy", state::name_of(request.state->strategy)}};
  }
  return json;
}

Json arguments(const peer::Transfer& what) {
  return {{"partner", hex(what.peer)},
          {"tag", what.tag.value},
          {"type", lockstep::name_of(what.type)},
          {"count", what.count}};
}

}  // namespace

std::string opened(const peer::PeerOptions& options) {
  Json json = line(options.id, "opened");
  json["name"] = options.name;
  json["group"] = options.group.value;
  json["gang"] = options.gang.value;
  json["gang_size"] = options.gang_size;
  return dump(json);
}

std::string called(PeerId by, const peer::Input& command) {
  return std::visit(
      overloaded{[&](const peer::Connect& c) { return call(by, c.call, "connect"); },
                 [&](const peer::Admit& c) {
                   return call(by, c.call, "admit", {{"at_least", c.at_least}});
                 },
                 [&](const peer::Leave& c) { return call(by, c.call, "leave"); },
                 [&](const peer::Launch& c) {
                   Json more = arguments(c.request);
                   if (c.refused) more["refused"] = c.refused->why;
                   return call(by, c.call, "collective", more);
                 },
                 [&](const peer::Publish& c) { return call(by, c.call, "publish", arguments(c.request)); },
                 [&](const peer::Prefetch& c) { return call(by, c.call, "prefetch", arguments(c.request)); },
                 [&](const peer::Send& c) { return call(by, c.call, "send", arguments(c.what)); },
                 [&](const peer::Receive& c) { return call(by, c.call, "recv", arguments(c.what)); },
                 [](const auto&) { return std::string(); }},
      command);
}

std::string ended(PeerId by, CallId call, const peer::Outcome& outcome) {
  Json json = line(by, "ended");
  json["call"] = call.value;
  json["status"] = status_name(outcome.status);
  if (!outcome.text.empty()) json["text"] = outcome.text;
  json["view"] = outcome.view.value;
  json["world"] = outcome.world;
  if (outcome.round != RoundKey{}) {
    json["round"] = {{"cohort", outcome.round.cohort.value},
                     {"group", outcome.round.group.value},
                     {"tag", outcome.round.tag.value},
                     {"use", outcome.round.use}};
    json["attempt"] = outcome.attempt.value;
    json["hash"] = outcome.hash;
    if (outcome.way.algorithm != wire::Algorithm::kAuto) json["algorithm"] = name_of(outcome.way.algorithm);
    if (!outcome.way.rates.empty()) json["rates"] = outcome.way.rates;
    json["retries"] = outcome.retries;
    json["bytes_sent"] = outcome.bytes_sent;
    json["bytes_received"] = outcome.bytes_received;
  }
  if (outcome.contributors) {
    Json& contributors = json["contributors"] = Json::array();
    for (const PeerId peer : *outcome.contributors) contributors.push_back(hex(peer));
  }
  if (outcome.root != Digest{}) {
    json["state"] = {{"revision", outcome.revision},
                     {"root", hex(outcome.root)},
                     {"lineage", outcome.lineage.value},
                     {"is_defined", outcome.state_defined}};
  }
  if (!outcome.blocks.empty()) json["blocks"] = outcome.blocks;
  if (!outcome.transfer.partner.is_nobody()) json["partner"] = hex(outcome.transfer.partner);
  return dump(json);
}

std::string installed(PeerId by, const wire::View& view) {
  Json json = line(by, "installed");
  json["term"] = view.term.value;
  json["view"] = view.number.value;
  json["cohort"] = view.cohort.value;
  Json& members = json["members"] = Json::array();
  for (const wire::Member& member : view.members) {
    members.push_back(
        {{"id", hex(member.id)}, {"group", member.group.value}, {"gang", member.gang.value}, {"name", member.name}});
  }
  return dump(json);
}

std::string closed(PeerId by) { return dump(line(by, "closed")); }

}  // namespace lockstep::transport::journal
