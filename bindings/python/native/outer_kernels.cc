#include "bindings/python/native/outer_kernels.h"

#include "bindings/python/native/gil.h"
#include "bindings/python/native/kernel_arrays.h"
#include "core/kernels/training/outer_step.h"

namespace lockstep::python {
namespace outer {
namespace {

using kernels::Floats;
using kernels::kRead;
using kernels::kWrite;
using kernels::Model;
using kernels::same_size;

void difference(const py::object& into, const py::object& old, const py::object& now) {
  const Floats result(into, "into", kWrite);
  const Floats before(old, "old", kRead);
  same_size(before.array, "old", result.array, "into");
  const Model model(now, "now", kRead, result.array, "into");
  if (!model.array) raise_invalid("now is None; allowed: an array");
  const WithoutGil released;
  training::difference(result.span(), before.span(), model.held_const());
}

void sgd_step(const py::object& theta, const py::object& gradient, float lr, const py::object& model) {
  const Floats shared(theta, "theta", kWrite);
  const Floats average(gradient, "gradient", kRead);
  same_size(average.array, "gradient", shared.array, "theta");
  const Model own(model, "model", kWrite, shared.array, "theta");
  const WithoutGil released;
  training::sgd_step(shared.span(), average.span(), lr, own.held());
}

void nesterov_step(const py::object& theta, const py::object& momentum, const py::object& gradient, float lr, float mu,
                   const py::object& model) {
  const Floats shared(theta, "theta", kWrite);
  const Floats speed(momentum, "momentum", kWrite);
  same_size(speed.array, "momentum", shared.array, "theta");
  const Floats average(gradient, "gradient", kRead);
  same_size(average.array, "gradient", shared.array, "theta");
  const Model own(model, "model", kWrite, shared.array, "theta");
  const WithoutGil released;
  training::nesterov_step(shared.span(), speed.span(), average.span(), lr, mu, own.held());
}

void hold(const py::object& model, const py::object& values) {
  const Floats from(values, "values", kRead);
  const Model own(model, "model", kWrite, from.array, "values");
  const WithoutGil released;
  if (own.array) training::hold(own.held(), from.span());
}

void mix(const py::object& model, const py::object& shared, float alpha, float rest) {
  const Floats from(shared, "shared", kRead);
  const Model own(model, "model", kWrite, from.array, "shared");
  const WithoutGil released;
  if (own.array) training::mix(own.held(), from.span(), alpha, rest);
}

}  // namespace
}  // namespace outer

void define_outer_kernels(py::module_& module) {
  module.def(
      "difference", &outer::difference, py::arg("into"), py::arg("old"), py::arg("now"),
      "into = old - now, as float32, where old is rounded to the type of now first: float32, bfloat16 or float16.");
  module.def("sgd_step", &outer::sgd_step, py::arg("theta"), py::arg("gradient"), py::arg("lr"), py::arg("model"),
             "theta = theta - lr * gradient; then model, unless it is None, becomes theta, in its own type.");
  module.def("nesterov_step", &outer::nesterov_step, py::arg("theta"), py::arg("momentum"), py::arg("gradient"),
             py::arg("lr"), py::arg("mu"), py::arg("model"),
             "momentum = mu * momentum + gradient; theta = theta - lr * (gradient + mu * momentum); model as in "
             "sgd_step().");
  module.def("mix", &outer::mix, py::arg("model"), py::arg("shared"), py::arg("alpha"), py::arg("rest"),
             "model = alpha * model + rest * shared, rounded to the type of the model.");
  module.def("hold", &outer::hold, py::arg("model"), py::arg("values"),
             "model = values, rounded to the type of the model.");
}

}  // namespace lockstep::python
