// What a peer saw of its run, a line of JSON for each call, the end of a call, and each view: what promises are about. Journals of
// all peers of a run, together, are judged by `lockstep sim audit` with the checkers of the simulator.
#pragma once

#include <string>

#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/wire/message.h"

namespace lockstep::transport::journal {

std::string opened(const peer::Options& options);
// A call of the program; empty: `command` is none.
std::string called(PeerId by, const peer::Input& command);
std::string ended(PeerId by, CallId call, const peer::Outcome& outcome);
std::string installed(PeerId by, const wire::View& view);
// The peer is no more, and every call has ended.
std::string closed(PeerId by);

}  // namespace lockstep::transport::journal
