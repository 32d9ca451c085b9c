// The options and the timer of a coordinator, field by field, as in core/archive/fields.h.
#pragma once

#include "core/archive/fields.h"
#include "core/coordinator/coordinator.h"

namespace lockstep::coordinator {

using archive::Is;

// ---- options ----

void fields(auto& a, Is<Grant> auto& m) {
  a("id", m.id);
  a("role", m.role);
  a("expires", m.expires);
  a("most_peers", m.most_peers);
  a("single_use", m.single_use);
  a("used", m.used);
  a("name", m.name);
}

void fields(auto& a, Is<CoordinatorOptions> auto& m) {
  a("term", m.term);
  a("link_key", m.link_key);
  a("heartbeat", m.heartbeat);
  a("silence", m.silence);
  a("greeting", m.greeting);
  a("gang_leave", m.gang_leave);
  a("strangers", m.strangers);
  a("waiting_of_one", m.waiting_of_one);
  a("link_patience", m.link_patience);
  a("stops_at_once", m.stops_at_once);
  a("stops_per_second", m.stops_per_second);
  a("dial_back", m.dial_back);
  a("secured", m.secured);
  a("grants", m.grants);
}

// ---- effects ----

void fields(auto& a, Is<TokenUsed> auto& m) { a("token", m.token); }

// ---- inputs ----

void fields(auto&, Is<Timer> auto&) {}

void fields(auto& a, Is<BarredKey> auto& m) {
  a("key", m.key);
  a("why", m.why);
}

void fields(auto& a, Is<ChangeGrants> auto& m) {
  a("grants", m.grants);
  a("barred", m.barred);
}

}  // namespace lockstep::coordinator
