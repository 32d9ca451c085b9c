#include "core/coordinator/grants.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/wire/limits.h"
#include "core/wire/run_token.h"

namespace lockstep::coordinator {

namespace {

Error refusal(std::string text) { return {Status::kRefused, std::move(text)}; }

}  // namespace

std::string validate_grants(const std::vector<Grant>& grants) {
  if (grants.size() > kMaxGrants) {
    return "grants: " + std::to_string(grants.size()) + ", at most " + std::to_string(kMaxGrants) + " allowed";
  }
  std::set<io::TokenId> ids;
  for (const Grant& grant : grants) {
    if (grant.id == io::TokenId{}) return "grants: a token needs an id that is not 0";
    if (!ids.insert(grant.id).second) return "grants: token " + wire::name_of(grant.id) + " is listed twice";
    if (grant.name.size() > kMaxNameBytes)
      return "grants: the name of token " + wire::name_of(grant.id) + " is too long";
  }
  return {};
}

Grants::Grants(bool secured, const std::vector<Grant>& grants) : secured_(secured) { replace(grants); }

void Grants::replace(const std::vector<Grant>& grants) {
  grants_.clear();
  for (const Grant& grant : grants) {
    grants_.emplace(grant.id, grant);
    if (grant.single_use && grant.used) used_up_.insert(grant.id);
  }
}

std::string Grants::text_of(io::TokenId token) const {
  const auto grant = grants_.find(token);
  const bool named = grant != grants_.end() && !grant->second.name.empty();
  return "token " + wire::name_of(token) + (named ? " (" + grant->second.name + ")" : "");
}

std::string Grants::text_of(const io::Identity& identity) const {
  return identity.certificate.empty() ? text_of(identity.token) : "certificate " + identity.certificate;
}

std::string Grants::way_back(const io::Identity& evicted) const {
  if (!evicted.certificate.empty() || is_personal(evicted.token)) return {};
  return ": " + text_of(evicted.token) +
         " is for several peers, so its program can join again at once as another peer; to keep it out, revoke the "
         "token, which takes out all peers that joined by it: `lockstep token revoke --tokens FILE " +
         wire::name_of(evicted.token) + "`";
}

std::optional<io::Identity> Grants::identity_of(PeerId peer) const {
  const auto identity = identity_of_.find(peer);
  return identity == identity_of_.end() ? std::nullopt : std::optional(identity->second);
}

bool Grants::is_personal(io::TokenId token) const {
  const auto grant = grants_.find(token);
  return grant != grants_.end() && (grant->second.single_use || grant->second.most_peers == 1);
}

std::size_t Grants::peers_of(io::TokenId token) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(identity_of_, [&](const auto& entry) { return entry.second.token == token; }));
}

// Rule 63: a token that is not proved gets the answer of a token that is not known, so that nobody learns which exist.
std::optional<Error> Grants::validate_status_request(const io::Identity& identity, Instant now) const {
  if (!secured_) return std::nullopt;
  if (identity.key.is_none() || identity.token == io::TokenId{}) {
    return refusal(
        "this coordinator admits only peers with a run token: connect with the string that `lockstep coordinator` "
        "printed");
  }
  if (const auto barred = barred_.find(identity.key); barred != barred_.end()) return refusal(barred->second);
  if (!identity.doubt.empty()) return refusal(identity.doubt);
  const auto grant = grants_.find(identity.token);
  const bool proved = identity.proved || mutant(Mutant::kUnprovedAdmitted);
  if (!proved || grant == grants_.end()) {
    return refusal("token " + wire::name_of(identity.token) +
                   " is not one of this run: it was revoked, or is of another run");
  }
  if (now >= grant->second.expires) {
    return refusal(text_of(identity.token) + " has expired: ask for a new one (`lockstep token new`)");
  }
  return std::nullopt;
}

std::optional<Error> Grants::validate_join(const io::Identity& identity, Instant now) const {
  if (auto error = validate_status_request(identity, now); error || !secured_) return error;
  const Grant& grant = grants_.at(identity.token);
  if (grant.role != io::Role::kMember) {
    const bool admin = grant.role == io::Role::kAdmin;
    return refusal(text_of(grant.id) + " is for " +
                   (admin ? "administrators, which may ask for the status and evict peers"
                          : "observers, which may ask for the status") +
                   ": join with another token");
  }
  if (used_up_.contains(grant.id)) {
    return refusal(text_of(grant.id) + " is for one peer, and was used: ask for a new one (`lockstep token new`)");
  }
  if (grant.most_peers != 0 && peers_of(grant.id) >= grant.most_peers) {
    return refusal(text_of(grant.id) + " is for " + std::to_string(grant.most_peers) +
                   (grant.most_peers == 1 ? " peer" : " peers") + ", which are in the run: wait until one has left");
  }
  return std::nullopt;
}

std::optional<Error> Grants::validate_eviction(const io::Identity& identity, Instant now) const {
  constexpr const char* kMakeOne = "evict with a token of an administrator (`lockstep token new --role admin`)";
  if (!secured_) {
    return refusal(std::string("a run without run tokens has no administrators: start its coordinator with a file of "
                               "tokens (`lockstep coordinator --tokens FILE`), and ") +
                   kMakeOne);
  }
  if (auto error = validate_status_request(identity, now)) return error;
  if (!identity.certificate.empty()) {
    return refusal(
        "a run with certificates has no administrators: to take a peer out, have the authority revoke its certificate, "
        "and give the coordinator the new list (`lockstep coordinator --revocation-list FILE`), which it reads again "
        "when the file changes: the peer is out within a second");
  }
  const Grant& grant = grants_.at(identity.token);
  if (grant.role == io::Role::kAdmin || mutant(Mutant::kObserverEvicts)) return std::nullopt;
  return refusal(text_of(grant.id) + " is for " + (grant.role == io::Role::kMember ? "members" : "observers") +
                 ", which may not evict peers: " + kMakeOne);
}

bool Grants::joined(PeerId peer, const io::Identity& identity) {
  if (!secured_) return false;
  identity_of_.emplace(peer, identity);
  const auto grant = grants_.find(identity.token);
  return grant != grants_.end() && grant->second.single_use && used_up_.insert(identity.token).second;
}

void Grants::gone(PeerId peer) { identity_of_.erase(peer); }

std::vector<Grants::Revoked> Grants::change(const std::vector<Grant>& grants, const std::vector<BarredKey>& barred) {
  std::map<PeerId, std::string> tokens;
  for (const auto& [peer, identity] : identity_of_) tokens.emplace(peer, text_of(identity));
  replace(grants);
  std::erase_if(used_up_, [&](io::TokenId token) { return !grants_.contains(token); });
  barred_.clear();
  for (const BarredKey& one : barred) barred_.emplace(one.key, one.why);
  std::vector<Revoked> revoked;
  for (const auto& [peer, identity] : identity_of_) {
    if (const auto bar = barred_.find(identity.key); bar != barred_.end()) {
      revoked.push_back({peer, bar->second});
      continue;
    }
    const auto grant = grants_.find(identity.token);
    if (grant != grants_.end() && grant->second.role == io::Role::kMember) continue;
    if (mutant(Mutant::kRevokedStays)) continue;
    revoked.push_back({peer, tokens.at(peer) + " was revoked"});
  }
  return revoked;
}

}  // namespace lockstep::coordinator
