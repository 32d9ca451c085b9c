// Queries the status of a coordinator, and has it evict a peer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/wire/message.h"
#include "transport/connector.h"
#include "transport/destination.h"

namespace lockstep::transport {

// Blocks until the coordinator that this text names (transport/destination.h) has answered, or until `timeout` has
// passed. Errors: kUnreachable, kTimedOut, kRefused, kProtocolError, kInvalidArgument; the text names the address and
// what to do.
Result<wire::StatusReply> query_status(std::string_view coordinator, Duration timeout,
                                       const Protection& protection = {});

// What happened to the stream of a question.
struct StreamCourse {
  bool opened = false;                      // the program accepted the stream, and with TLS the handshake succeeded
  Duration round_trip{};                    // as the kernel measured it while the stream was opened; 0: not known
  std::optional<io::CloseReason> closed{};  // how the stream ended, if it ended before an answer
  std::string why{};                        // the same in words
  std::string first_bytes{};                // up to 8 bytes that the program sent first
};

// How the program at one address took the question for its status: what query_status() tells in words, as values.
struct Inquiry {
  Result<wire::StatusReply> reply;
  Duration elapsed{};  // from the dial to the reply, or to the error
  StreamCourse stream{};

  // Whether the program answered as a coordinator that refuses to answer.
  [[nodiscard]] bool was_refused() const {
    return !stream.closed && !reply.ok() && reply.error().status == Status::kRefused;
  }
};

// Asks the program at this address once. Blocks at most `timeout`.
Inquiry inquire(const io::Address& address, const Security& security, Duration timeout);

// Asks the coordinator to take a peer out of the run (rule 69 of docs/protocol.md). Blocks and fails likewise.
// kRefused: the run token of `coordinator` is none of an administrator.
Result<wire::EvictReply> evict_peer(std::string_view coordinator, PeerId peer, Duration timeout,
                                    const Protection& protection = {});

}  // namespace lockstep::transport
