// The context that the parts of a peer share: its options, the time and the effects of the step, the view, the streams
// to the coordinator and to neighbours, and jobs. Holds none of these parts and decides nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/peer/effect.h"
#include "core/peer/jobs.h"
#include "core/peer/mesh.h"
#include "core/peer/options.h"
#include "core/peer/session.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::peer {

struct Context {
  Context(const PeerOptions& its_options, Instant birth, SessionOwner& session_owner)
      : options(its_options),
        now(birth),
        session(options, names, session_owner),
        mesh(options, names),
        jobs(options.first_serial) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() = default;

  [[nodiscard]] Effects& out() const { return *effects; }
  // Ends a call, on the view that is installed.
  void complete(CallId call, Outcome outcome) const;
  void fail(CallId call, Status status, std::string text) const;
  void note(trace::Event event) const { out().emplace_back(std::move(event)); }
  void start_jobs(const std::optional<JobPrefix>& prefix) { jobs.start(prefix, out()); }

  // A call that has waited for so long is told to the coordinator (rule 54).
  [[nodiscard]] Duration long_wait() const { return options.link_heartbeat * kLongWaitBeats; }
  [[nodiscard]] Instant deadline_after(Duration timeout) const { return timeout.ns > 0 ? now + timeout : kNever; }
  [[nodiscard]] std::string name_of(PeerId peer) const;

  // Left out: options, that it is made of.
  template <typename Archive>
  void archive(Archive& a);

  const PeerOptions options;
  Instant now;
  Effects* effects = nullptr;                                                     // of the step; null between two steps
  std::shared_ptr<const wire::View> view = std::make_shared<const wire::View>();  // the newest that is installed
  io::StreamNames names = io::StreamNames::for_dialling();
  Session session;
  Mesh mesh;
  Jobs jobs;
};

}  // namespace lockstep::peer
