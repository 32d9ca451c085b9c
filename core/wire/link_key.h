// What a peer that waits for its admission says on its streams to members: a key of its own. It is made of the run's,
// which stays untold, and of its id, so that members know it without being told. A digest, no cipher: it keeps
// strangers out who have only heard an address, as the key of the run does on a stream that anybody may read.
#pragma once

#include "core/base/ids.h"

namespace lockstep::wire {

LinkKey visitor_key(const LinkKey& run, PeerId visitor);

}  // namespace lockstep::wire
