// The extension module lockstep._lockstep: the C API for the Python package. Nothing else uses the module.
#include <pybind11/pybind11.h>

#include "bindings/python/native/array.h"
#include "bindings/python/native/call.h"
#include "bindings/python/native/call_options.h"
#include "bindings/python/native/communicator.h"
#include "bindings/python/native/coordinator.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/handle.h"
#include "bindings/python/native/lines.h"
#include "bindings/python/native/outer_kernels.h"
#include "bindings/python/native/result.h"
#include "bindings/python/native/sparse_kernels.h"
#include "bindings/python/native/swarm.h"
#include "bindings/python/native/work.h"
#include "lockstep.h"

namespace py = pybind11;

namespace {

// The C library's names by number, so that a test can compare lockstep.types with them.
template <typename Number, typename Name>
py::list names(Name&& name) {
  py::list out;
  for (unsigned number = 0;; ++number) {
    const std::string text = name(static_cast<Number>(number));
    if (text == "unknown") return out;
    out.append(text);
  }
}

py::dict constants() {
  py::dict out;
  out["ops"] = names<lockstep_op>(&lockstep_op_name);
  out["wire_formats"] = names<lockstep_wire_format>(&lockstep_wire_format_name);
  out["algorithms"] = names<lockstep_algorithm>(&lockstep_algorithm_name);
  out["data_types"] = names<lockstep_data_type>(&lockstep_data_type_name);
  py::list sizes;
  for (std::size_t i = 0; i < py::len(out["data_types"]); ++i) {
    sizes.append(lockstep_data_type_size(static_cast<lockstep_data_type>(i)));
  }
  out["data_type_sizes"] = sizes;
  py::list fields;
  for (const char* field : lockstep::python::kAllReduceFields) fields.append(field);
  out["all_reduce_options"] = fields;
  return out;
}

}  // namespace

PYBIND11_MODULE(_lockstep, module) {
  module.doc() = "Native part of lockstep; import lockstep instead.";
  lockstep::python::define_result(module);
  lockstep::python::define_work(module);
  lockstep::python::define_lines(module);
  lockstep::python::define_coordinator(module);
  // must come before functions that take a Handle, because signatures show registered classes only
  lockstep::python::define_swarm(module);
  lockstep::python::define_communicator(module);
  lockstep::python::define_outer_kernels(module);
  lockstep::python::define_sparse_kernels(module);
  module.def("version", &lockstep_version_string);
  module.def("constants", &constants);
  module.def("status_string", [](int status) { return lockstep_status_string(static_cast<lockstep_status>(status)); });
  module.def("peer_id_text", [](const py::bytes& id) {
    char text[LOCKSTEP_PEER_ID_TEXT_SIZE];
    const lockstep_peer_id from = lockstep::python::to_peer_id(id);
    lockstep_peer_id_text(&from, text);
    return std::string(text);
  });
  module.def("bytes_of", [](const py::object& array) {
    const lockstep::python::Array of(array, "array", lockstep::python::Array::Access::kRead);
    const std::size_t size = lockstep_data_type_size(of.type()) * of.count();
    return py::bytes(static_cast<const char*>(of.data()), size);
  });
  module.def("describe", [](const py::object& array) {
    const lockstep::python::Array described(array, "array", lockstep::python::Array::Access::kRead);
    return py::make_tuple(described.count(), lockstep::python::name_of(described.type()));
  });
  module.def("in_python", &lockstep::python::in_python);
  module.def("set_no_wait", [](bool no_wait) { return lockstep_set_no_wait(no_wait ? 1 : 0) != 0; });
  module.def("collect", &lockstep::python::collect);
  module.def("begin_exit", &lockstep::python::begin_exit);
  module.def("is_exiting", &lockstep::python::is_exiting);
  lockstep::python::prepare_errors();
  lockstep::python::install_interrupt();
}
