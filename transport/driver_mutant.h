// Planted bugs of the drivers, which test their tests: the same idea as core/base/mutant.h, for what the simulator does
// not run, transport and bindings/c. `./run mutants-drivers` plants them one by one, and the tests of C++ and C must
// fail for each. LOCKSTEP_DRIVER_MUTANT names the bug of a process. A released build has none: planted() is false.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace lockstep::transport {

// X(name, id, bug)
// clang-format off
#define LOCKSTEP_DRIVER_MUTANTS(X) \
  X(kTimerLate, "timer-late", "a timer fires half a second late") \
  X(kOnePortOfMany, "one-port-of-many", "only the first port of a range is tried") \
  X(kClosesAtOnce, "closes-at-once", "a stream is closed before the other side has read what was sent last") \
  X(kWakesForAll, "wakes-for-all", "a helper thread wakes the engine only when several jobs have ended") \
  X(kLeftOutUntold, "left-out-untold", "nobody learns how many lines a full minute of the log has left out") \
  X(kLineUncut, "line-uncut", "a line of the log is as long as another host wants") \
  X(kLastIsFurthest, "last-is-furthest", "overlaps are looked for only between neighbours in memory") \
  X(kValuesMayOverlap, "values-may-overlap", "the values of a state may lie in its tensors") \
  X(kResidualUnwatched, "residual-unwatched", "a call may write a residual into a watched state") \
  X(kNewcomersCut, "newcomers-cut", "a result counts only the newcomers that its array has room for") \
  X(kRefusedIsOk, "refused-is-ok", "a result of a call that could not begin keeps the status 0") \
  X(kZeroIsForever, "zero-is-forever", "a time-out of 0 is none") \
  X(kSecondCloserReturns, "second-closer-returns", "a thread that closes a handle beside another one does not wait") \
  X(kLastPortIgnored, "last-port-ignored", "the option last_port has no effect") \
  X(kGraceIgnored, "grace-ignored", "the option abort_grace_ms has no effect") \
  X(kAnyProof, "any-proof", "a coordinator believes that every dialler holds the secret of its token") \
  X(kNoPace, "no-pace", "one network may begin any number of TLS handshakes") \
  X(kStrangersStay, "strangers-stay", "a TLS handshake may take for ever") \
  X(kNeverRekeys, "never-rekeys", "a TLS stream keeps its keys for ever") \
  X(kRevokedStays, "revoked-stays", "a token that is revoked in the file goes on to be granted")
// clang-format on

enum class DriverMutant : std::uint8_t {
#define LOCKSTEP_DRIVER_MUTANT_NAME(name, id, bug) name,
  LOCKSTEP_DRIVER_MUTANTS(LOCKSTEP_DRIVER_MUTANT_NAME)
#undef LOCKSTEP_DRIVER_MUTANT_NAME
};

#ifdef LOCKSTEP_MUTANTS
// Whether this bug is planted in this process.
[[nodiscard]] inline bool planted(DriverMutant which) {
  static const std::string_view id = [] {
    const char* const named = std::getenv("LOCKSTEP_DRIVER_MUTANT");
    return named == nullptr ? std::string_view() : std::string_view(named);
  }();
  if (id.empty()) return false;
  switch (which) {
#define LOCKSTEP_DRIVER_MUTANT_CASE(name, its_id, bug) \
  case DriverMutant::name: return id == its_id;
    LOCKSTEP_DRIVER_MUTANTS(LOCKSTEP_DRIVER_MUTANT_CASE)
#undef LOCKSTEP_DRIVER_MUTANT_CASE
  }
  return false;
}
#else
[[nodiscard]] constexpr bool planted(DriverMutant) { return false; }
#endif

}  // namespace lockstep::transport
