#include "core/coordinator/exclusions.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/wire/limits.h"
#include "core/wire/run_token.h"

namespace lockstep::coordinator {

namespace {

// In whole seconds, rounded up.
std::string seconds_text(Duration time) {
  const Duration unit = seconds(1);
  return std::to_string((time.ns + unit.ns - 1) / unit.ns) + " s";
}

}  // namespace

void Exclusions::violated(const io::Identity& identity, bool personal, Instant now) {
  LOCKSTEP_ASSERT(!identity.key.is_none() && identity.token != io::TokenId{});
  forget_old(now);
  if (personal) return exclude(entry_of({identity.token, {}}, now), false, now);
  exclude(entry_of({{}, identity.key}, now), false, now);
  if (!identity.certificate.empty()) return;  // only the authority makes keys, each for one peer
  // One token admits any number of keys. So the violations of all its keys count for the token.
  Entry& token = entry_of({identity.token, {}}, now);
  token.until = std::max(token.until, now);
  if (token.violations.size() == kViolationsOfToken) token.violations.erase(token.violations.begin());
  token.violations.push_back(now);
  const bool full = token.violations.size() == kViolationsOfToken;
  if (full && now - token.violations.front() <= kViolationWindow) exclude(token, false, now);
}

void Exclusions::evicted(const io::Identity& identity, bool personal, Instant now) {
  LOCKSTEP_ASSERT(!identity.key.is_none() && identity.token != io::TokenId{});
  forget_old(now);
  exclude(entry_of(personal ? Subject{identity.token, {}} : Subject{{}, identity.key}, now), true, now);
}

std::optional<Error> Exclusions::validate_join(const io::Identity& identity, Instant now) const {
  const auto excluding = [&](const Subject& subject) {
    const auto entry = entries_.find(subject);
    return entry == entries_.end() || entry->second.until <= now ? nullptr : &entry->second;
  };
  if (const Entry* const key = excluding({{}, identity.key})) {
    return Error{Status::kRefused, std::string(key->evicted ? "an administrator has evicted this peer"
                                                            : "this peer has broken the protocol") +
                                       ": it may join again in " + seconds_text(key->until - now)};
  }
  if (const Entry* const token = excluding({identity.token, {}})) {
    return Error{Status::kRefused,
                 "token " + wire::name_of(identity.token) + " admits nobody for another " +
                     seconds_text(token->until - now) +
                     (token->evicted ? ", because an administrator has evicted its peer"
                                     : ", because peers that joined by it have broken the protocol: wait, or ask for a "
                                       "token of your own (`lockstep token new`)")};
  }
  return std::nullopt;
}

std::size_t Exclusions::entries() const {
  std::size_t entries = entries_.size();
  for (const auto& [subject, entry] : entries_) entries += entry.violations.size();
  return entries;
}

void Exclusions::forget_old(Instant now) {
  std::erase_if(entries_, [&](const auto& entry) { return now - entry.second.until > kExclusionMemory; });
}

Exclusions::Entry& Exclusions::entry_of(const Subject& subject, Instant now) {
  if (const auto at = entries_.find(subject); at != entries_.end()) return at->second;
  if (entries_.size() == kMaxExclusions) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
  }
  return entries_.emplace(subject, Entry{now, {}, {}, false}).first->second;
}

void Exclusions::exclude(Entry& entry, bool evicted, Instant now) {
  entry.evicted = evicted;
  entry.length = entry.length == Duration{} ? kFirstExclusion : std::min(entry.length * 2, kLongestExclusion);
  entry.until = std::max(entry.until, now + entry.length);
}

}  // namespace lockstep::coordinator
