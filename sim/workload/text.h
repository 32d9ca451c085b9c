// Values as words, for failures and traces.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/effect.h"
#include "core/ring/request.h"
#include "core/wire/message.h"
#include "sim/words/units.h"

namespace lockstep::sim {

struct Call;

std::string hex(std::uint64_t value);
std::string text_of(PeerId peer);
std::string text_of(const std::vector<PeerId>& peers);
std::string text_of(const RoundKey& round);
std::string text_of(const peer::Outcome& outcome);
std::string text_of(const ring::Request& request);
std::string text_of(const Call& call);
std::string text_of(const wire::View& view);

}  // namespace lockstep::sim
