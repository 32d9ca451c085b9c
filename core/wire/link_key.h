// The key that a waiting peer presents on its streams to members: a key of its own, derived from the run's key, which
// stays secret, and the peer's id. So members can compute the key, and it is not sent to them. The key is a digest, not
// a cipher. Like the run's key on an unencrypted stream, it keeps out strangers that know only an address.
#pragma once

#include "core/base/ids.h"

namespace lockstep::wire {

LinkKey prefetcher_key(const LinkKey& run, PeerId prefetcher);

}  // namespace lockstep::wire
