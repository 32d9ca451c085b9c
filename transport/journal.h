// The observations of one peer, one line of JSON for each call, each end of a call and each view: the events that
// promises are about. `lockstep sim audit` checks the journals of all peers of a run with the checkers of the
// simulator. A writer that cannot write a line ends the journal with {"peer":"ID","what":"stopped","why":"..."}.
#pragma once

#include <string>

#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/wire/message.h"

namespace lockstep::transport::journal {

std::string opened(const peer::PeerOptions& options);
// A call of the program; empty if `command` is not a call.
std::string called(PeerId by, const peer::Input& command);
std::string ended(PeerId by, CallId call, const peer::Outcome& outcome);
std::string installed(PeerId by, const wire::View& view);
// The peer was destroyed; every call has ended.
std::string closed(PeerId by);

}  // namespace lockstep::transport::journal
