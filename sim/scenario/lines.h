// The lines of a scenario's hosts: [net] for all hosts, [[line]] for some.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/network/network_options.h"
#include "sim/scenario/hosts.h"
#include "sim/words/toml_reader.h"

namespace lockstep::sim {

// model, up, down, loss, congestion and slow_start of [net]; `rate` and `window`: whether it has said those.
void read_flow(TomlReader& net, NetworkOptions& options, bool rate, bool window);

// [[line]]: of = "a b", up = "20Mbit/s", down = "100Mbit/s", loss = "0.1%", shared = true. Gives what is wrong with it.
std::optional<Error> read_line(const toml::table& table, const HostNames& hosts, NetworkOptions& options,
                               std::vector<std::string>& known);

}  // namespace lockstep::sim
