// Calls, field by field, as in core/archive/fields.h.
#pragma once

#include <type_traits>

#include "core/archive/fields.h"
#include "core/ring/request.h"

namespace lockstep::ring {

using archive::Is;

void fields(auto& a, Is<Tensor> auto& m) {
  a("send", m.send);
  a("recv", m.recv);
  a("count", m.count);
  a("residual", m.residual);
}

void fields(auto& a, Is<Block> auto& m) {
  a("to", m.to);
  a("count", m.count);
}

void fields(auto& a, Is<Watched> auto& m) {
  a("state", m.state);
  a("memory", m.memory);
}

void fields(auto& a, Is<Stated> auto& m) {
  a("tensors", m.tensors);
  a("layout", m.layout);
}

void fields(auto& a, Is<Arguments> auto& m) {
  a("collective", m.collective);
  a("type", m.type);
  a("op", m.op);
  a("tag", m.tag);
  a("retry", m.retry);
  a("minimum_world", m.minimum_world);
  a("root", m.root);
  a("formats", m.formats);
  a("algorithm", m.algorithm);
  a("weight", m.weight);
  a("timeout", m.timeout);
}

void fields(auto& a, Is<Request> auto& m) {
  constexpr bool kIsConst = std::is_const_v<std::remove_reference_t<decltype(m)>>;
  fields(a, static_cast<std::conditional_t<kIsConst, const Arguments, Arguments>&>(m));
  a("tensors", m.tensors);
  a("stated", m.stated);
  a("blocks", m.blocks);
  a("scratch", m.scratch);
  a("state", m.state);
  a("watch", m.watch);
}

}  // namespace lockstep::ring
