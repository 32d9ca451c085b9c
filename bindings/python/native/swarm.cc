#include "bindings/python/native/swarm.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/native/communicator.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/gil.h"
#include "bindings/swarm/conditions.h"
#include "bindings/swarm/swarm.h"

namespace lockstep::python {
namespace {

using swarm::Churn;
using swarm::Conditions;
using swarm::ProgramId;
using swarm::Swarm;

double seconds_of(Duration duration) { return static_cast<double>(duration.ns) * 1e-9; }

Duration duration_of(double seconds) { return nanoseconds(static_cast<std::int64_t>(seconds * 1e9)); }

template <typename Of>
Of value_of(lockstep::Result<Of> result) {
  if (!result) raise_invalid(result.error().text);
  return std::move(*result);
}

// `given`: the fields of Churn by name.
Churn churn_of(const py::dict& given) {
  Churn churn;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    if (name == "until") {
      churn.until = duration_of(py::cast<double>(value));
    } else {
      std::uint32_t Churn::*const field = name == "crashes"    ? &Churn::crashes
                                          : name == "vanishes" ? &Churn::vanishes
                                          : name == "leaves"   ? &Churn::leaves
                                          : name == "joins"    ? &Churn::joins
                                          : name == "stalls"   ? &Churn::stalls
                                          : name == "cuts"     ? &Churn::cuts
                                          : name == "resets"   ? &Churn::resets
                                                               : nullptr;
      if (field == nullptr) {
        raise_invalid("churn has no '" + name +
                      "'; allowed: crashes, vanishes, leaves, joins, stalls, cuts, resets, until");
      }
      churn.*field = py::cast<std::uint32_t>(value);
    }
  }
  return churn;
}

py::dict to_python(const swarm::Report& report) {
  py::dict out;
  out["seed"] = report.seed;
  out["hash"] = report.hash;
  out["seconds"] = seconds_of(report.time);
  out["events"] = report.events;
  out["commits"] = report.commits;
  out["aborts"] = report.aborts;
  out["retries"] = report.retries;
  out["views"] = report.views;
  out["interrupted"] = report.interrupted;
  out["never_began"] = report.never_began;
  py::list programs;
  for (const swarm::ProgramReport& program : report.programs) {
    programs.append(py::make_tuple(program.program.value, swarm::host_name(program.host), program.start,
                                   seconds_of(program.began), seconds_of(program.ended), swarm::name_of(program.end)));
  }
  out["programs"] = programs;
  py::list happenings;
  for (const swarm::Happening& happening : report.happenings) {
    happenings.append(py::make_tuple(seconds_of(happening.at), happening.what));
  }
  out["happenings"] = happenings;
  out["failure"] = py::none();
  if (report.failure) {
    out["failure"] = py::make_tuple(report.failure->kind, report.failure->text, seconds_of(report.failure->at));
  }
  return out;
}

py::dict run(Swarm& swarm, const py::function& start) {
  swarm::Report report;
  {
    const WithoutGil released;
    report = swarm.run(
        [&](ProgramId program) {
          const py::gil_scoped_acquire acquired;
          start(program.value);
        },
        [] {
          const py::gil_scoped_acquire acquired;
          return PyErr_CheckSignals() != 0;  // its exception stays set until run() returns to Python
        });
  }
  raise_pending();
  return to_python(report);
}

HandlePtr open(Swarm& swarm, std::uint32_t program, const py::dict& options) {
  return make_handle(options, Handle::End::kHere, [&](const lockstep_comm_options& from, lockstep_comm** comm) {
    return swarm.open(ProgramId{program}, &from, comm);
  });
}

}  // namespace

void define_swarm(py::module_& module) {
  const py::class_<Handle, HandlePtr> handle(module, "Handle");
  py::class_<Conditions>(module, "Conditions")
      .def_static("from_scenario", [](const std::string& toml,
                                      std::uint64_t seed) { return value_of(Conditions::from_scenario(toml, seed)); })
      .def_static("keys", &Conditions::keys)
      .def_static("from_text", [](const std::string& toml) { return value_of(Conditions::from_text(toml)); })
      .def("add",
           [](Conditions& self, const py::dict& churn) {
             if (const auto wrong = self.add(churn_of(churn))) raise_invalid(wrong->text);
           })
      .def("founders", &Conditions::founders)
      .def("hosts", &Conditions::hosts)
      .def("faults",
           [](const Conditions& self) {
             std::vector<std::string> faults;
             for (std::size_t i = 0; i < self.faults(); ++i) faults.push_back(self.fault(i));
             return faults;
           })
      .def("with_faults",
           [](const Conditions& self, const std::vector<std::size_t>& kept) {
             for (const std::size_t index : kept) {
               if (index >= self.faults()) {
                 raise_invalid("there is no fault " + std::to_string(index) + "; there are " +
                               std::to_string(self.faults()));
               }
             }
             return self.with_faults(kept);
           })
      .def("to_text", &Conditions::to_text);
  using Released = py::call_guard<WithoutGil>;
  py::class_<Swarm>(module, "Swarm")
      .def(py::init<const Conditions&>())
      .def("run", &run)
      .def("open", &open)
      .def("host_of",
           [](const Swarm& self, std::uint32_t program) { return swarm::host_name(self.host_of(ProgramId{program})); })
      .def(
          "enter", [](Swarm& self, std::uint32_t program) { self.enter(ProgramId{program}); }, Released())
      .def("now", [](const Swarm& self, std::uint32_t program) { return seconds_of(self.now(ProgramId{program})); })
      .def(
          "spend",
          [](Swarm& self, std::uint32_t program, double seconds) {
            return self.spend(ProgramId{program}, duration_of(seconds));
          },
          Released())
      .def("killed", [](const Swarm& self, std::uint32_t program) { return self.killed(ProgramId{program}); })
      .def(
          "exit",
          [](Swarm& self, std::uint32_t program, const std::optional<std::string>& failure) {
            self.exit(ProgramId{program}, failure);
          },
          Released());
}

}  // namespace lockstep::python
