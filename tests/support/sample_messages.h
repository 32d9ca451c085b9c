// One message of each type, every field set to a value of its own: what the golden bytes and the fuzzers start from.
#pragma once

#include <vector>

#include "core/wire/message.h"

namespace lockstep::test {

// In the order of the variant.
std::vector<wire::Message> sample_messages();

}  // namespace lockstep::test
