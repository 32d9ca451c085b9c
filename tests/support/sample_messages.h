// One message of each type, with a different value in every field: the input of the golden bytes and the fuzzers.
#pragma once

#include <vector>

#include "core/wire/message.h"

namespace lockstep::test {

// In the order of the variant.
std::vector<wire::Message> sample_messages();

}  // namespace lockstep::test
