#include "bindings/python/native/communicator.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/native/call_options.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/options.h"
#include "bindings/python/native/state.h"
#include "bindings/python/native/work.h"

namespace lockstep::python {
HandlePtr make_handle(const py::dict& given, Handle::End end, const Create& create) {
  refuse_at_exit();
  const Options from(given);
  auto log = lines_to(from.get("log"));  // created first: after any error below, it must still report its end
  auto journal = lines_to(from.get("journal"));
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  const std::string name = from.text("name");
  const std::string listen_host = from.text("listen_host");
  const std::string advertise_host = from.text("advertise_host");
  const std::string congestion_control = from.text("congestion_control");
  const std::string flight_folder = from.path("flight_folder");
  options.name = or_null(name);
  options.group = from.number<std::uint32_t>("group");
  options.gang = from.number<std::uint64_t>("gang");
  options.gang_size = from.number<std::uint32_t>("gang_size");
  options.founders = from.number<std::uint32_t>("founders");
  options.minimum_world = from.number<std::uint32_t>("minimum_world");
  options.auto_admit = from.flag("auto_admit");
  options.first_port = from.number<std::uint16_t>("first_port");
  options.last_port = from.number<std::uint16_t>("last_port");
  options.listen_host = or_null(listen_host);
  options.advertise_host = or_null(advertise_host);
  options.advertise_port = from.number<std::uint16_t>("advertise_port");
  options.stripes = from.number<std::uint16_t>("stripes");
  options.segment_bytes = from.number<std::uint32_t>("segment_bytes");
  options.dial_timeout_ms = from.duration("dial_timeout", 1e-3);
  options.link_heartbeat_ms = from.duration("link_heartbeat", 1e-3);
  options.link_silence_ms = from.duration("link_silence", 1e-3);
  options.link_timeout_ms = from.duration("link_timeout", 1e-3);
  options.abort_grace_ms = from.duration("abort_grace", 1e-3);
  options.congestion_control = or_null(congestion_control);
  options.flight_folder = or_null(flight_folder);
  options.flight_kib = from.number<std::uint32_t>("flight_kib");
  const py::object spin = from.get("spin");
  const bool never = !spin.is_none() && to_double(spin, "spin") == 0;
  if (!spin.is_none() && to_double(spin, "spin") > 0.01) raise_invalid("spin is more than 0.01 s; allowed: 0 to 0.01");
  options.spin_us = never ? LOCKSTEP_NO_SPIN : from.duration("spin", 1e-6);
  options.bytes_per_second = from.number<std::uint64_t>("bytes_per_second");
  options.state_bytes_per_second = from.number<std::uint64_t>("state_bytes_per_second");
  options.shared_thread = from.flag("shared_thread");
  options.insecure = from.flag("insecure");
  const Certificates certificates(from);
  options.certificates = certificates.get();
  if (log) {
    options.log = &Lines::take;
    options.log_user = log.get();
  }
  if (journal) {
    journal->report_to(log.get());
    options.journal = &Lines::take;
    options.journal_user = journal.get();
  }
  lockstep_comm* comm = nullptr;
  lockstep_status status = LOCKSTEP_OK;
  {
    const WithoutGil released;
    status = create(options, &comm);
  }
  check(status);
  auto handle = Handle::make(comm, end, std::move(log), std::move(journal));
  if (is_exiting()) handle->close();  // the exit may have begun meanwhile
  return handle;
}

namespace {

// Whether this thread runs an event loop of asyncio, which must not wait. Takes the GIL.
bool is_in_event_loop() {
  const py::gil_scoped_acquire acquired;
  return !py::module_::import("asyncio").attr("_get_running_loop")().is_none();
}

class Communicator {
 public:
  explicit Communicator(HandlePtr handle) : handle_(std::move(handle)) { check(lockstep_peer_id_self(comm(), &id_)); }

  [[nodiscard]] const lockstep_peer_id& id() const { return id_; }
  [[nodiscard]] lockstep_comm* comm() const { return handle_->comm(); }

  // The blocking form of a call and the asynchronous one. `args` may be on the stack: both forms read it before they
  // return.
  template <typename Args>
  std::shared_ptr<Result> run(lockstep_status (*function)(lockstep_comm*, const Args*, lockstep_result*),
                              const Args& args, Loans loans) {
    const HandlePtr kept = handle_;
    loans.watched = watched_;
    return block(loans, [&](lockstep_result* result) { return function(kept->comm(), &args, result); });
  }
  template <typename Args>
  std::shared_ptr<Work> start(lockstep_status (*function)(lockstep_comm*, const Args*, lockstep_work**),
                              const Args& args, Loans loans, py::object owner,
                              Call::Return when = Call::Return::kAtTheEnd) {
    const auto launch = [&](lockstep_work** work) {
      const int before = lockstep_set_no_wait(1);
      const lockstep_status status = function(comm(), &args, work);
      lockstep_set_no_wait(before);
      if (status != LOCKSTEP_ERR_TOO_MANY_IN_FLIGHT || before != 0 || is_in_event_loop()) return status;
      return function(comm(), &args, work);
    };
    return start_with(launch, std::move(loans), std::move(owner), when);
  }
  template <typename Function>
  std::shared_ptr<Work> start_with(Function&& function, Loans loans, py::object owner,
                                   Call::Return when = Call::Return::kAtTheEnd) {
    collect();
    loans.watched = watched_;
    const HandlePtr kept = handle_;
    lockstep_work* work = nullptr;
    lockstep_status status = LOCKSTEP_OK;
    {
      const WithoutGil released;
      status = std::forward<Function>(function)(&work);
    }
    if (status == LOCKSTEP_ERR_INTERRUPTED) raise_pending();
    if (status != LOCKSTEP_OK) check(status);
    return std::make_shared<Work>(Call::start(work, std::move(loans), when), std::move(owner));
  }
  // A waiting function without a result.
  template <typename Function>
  void wait_for(Function&& function) {
    const HandlePtr kept = handle_;
    lockstep_status status = LOCKSTEP_OK;
    {
      const WithoutGil released;
      status = std::forward<Function>(function)(kept->comm());
    }
    if (status == LOCKSTEP_ERR_INTERRUPTED) {
      if (lockstep_work* const work = lockstep_interrupted()) Call::start(work, {});
    }
    raise_pending();
    check(status);
  }

  // The other members learn that this process refuses its call. Nobody learns of a call whose tag cannot be read.
  void refuse(const std::string& operation, const py::handle& tag, const std::string& why) {
    std::uint64_t number = 0;
    try {
      number = to_number<std::uint64_t>(tag, "tag");
    } catch (const std::exception&) {
      return;
    }
    const HandlePtr kept = handle_;
    const WithoutGil released;
    lockstep_refuse(kept->comm(), operation.c_str(), number, why.c_str());
  }
  // Reads the arguments of a collective. Their refusal is an answer to the other members.
  template <typename Read>
  auto reading(const char* operation, const py::handle& tag, Read&& read) {
    try {
      return std::forward<Read>(read)();
    } catch (py::error_already_set& error) {  // Ctrl-C is no refusal
      if (error.matches(PyExc_Exception)) refuse(operation, tag, py::cast<std::string>(py::str(error.value())));
      throw;
    } catch (const std::exception& error) {
      refuse(operation, tag, error.what());
      throw;
    }
  }

  void watch(std::shared_ptr<StateArgs> state) {
    checked([&] { return lockstep_watch_state(comm(), state ? &state->args : nullptr); });
    watched_ = std::move(state);
  }
  void keep_published(std::uint64_t tag, std::shared_ptr<StateArgs> state) { handle_->lend(tag, std::move(state)); }
  void close() {
    handle_->close();
    collect();
    watched_.reset();
  }

 private:
  HandlePtr handle_;
  lockstep_peer_id id_{};  // valid even after the communicator was closed
  std::shared_ptr<StateArgs> watched_;
};

// ---- collectives ----

// The tensors of an all-reduce or a broadcast: one or many.
struct Tensors {
  std::vector<Array> arrays;
  std::vector<lockstep_tensor> list;
};

void same_shape(const Array& in, const Array& out, const std::string& in_name, const std::string& out_name) {
  if (in.type() == out.type() && in.count() == out.count()) return;
  raise_invalid(out_name + " has " + std::to_string(out.count()) + " elements of " + name_of(out.type()) + ", " +
                in_name + " has " + std::to_string(in.count()) + " of " + name_of(in.type()) + ": they must be equal");
}

void same_type(lockstep_data_type in, lockstep_data_type out) {
  if (in == out) return;
  raise_invalid(std::string("out has dtype ") + name_of(out) + ", array has " + name_of(in) + ": they must be equal");
}

// The common options of collectives, (tag, timeout, minimum_world), from this index on.
template <typename Args>
void read_common(const py::tuple& options, std::size_t at, Args& args) {
  args.tag = to_number<std::uint64_t>(options[at], "tag");
  args.timeout_ms = milliseconds_of(options[at + 1], "timeout", false);
  args.minimum_world = to_number<std::uint32_t>(options[at + 2], "minimum_world");
}

struct AllReduce {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  std::vector<lockstep_tensor> tensors;
  std::vector<void*> residuals;
  Loans loans;

  // `options`: lockstep/_call_options.py's AllReduceOptions.
  AllReduce(const py::object& array, const py::object& out, const py::object& residual, const py::tuple& options) {
    const bool in_place = out.is_none();
    std::vector<Array>& arrays = loans.arrays;
    arrays = arrays_of(array, "array", in_place ? Array::Access::kWrite : Array::Access::kRead);
    const std::size_t count = arrays.size();
    std::vector<Array> outs;
    if (!in_place) {
      outs = arrays_of(out, "out", Array::Access::kWrite);
      if (outs.size() != count || is_list(out) != is_list(array)) {
        raise_invalid("out holds " + std::to_string(outs.size()) + " arrays, array holds " + std::to_string(count) +
                      ": give one array for one, or a list for a list of the same length");
      }
      for (std::size_t i = 0; i < count; ++i) same_shape(arrays[i], outs[i], "array", "out");
    }
    tensors.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      tensors.push_back({arrays[i].data(), in_place ? arrays[i].data() : outs[i].data(), arrays[i].count()});
    }
    args.type = count > 0 ? arrays.front().type() : LOCKSTEP_F32;
    add_residuals(residual, is_list(array));
    for (Array& more : outs) arrays.push_back(std::move(more));

    args.op = static_cast<lockstep_op>(py::cast<unsigned>(options[kOp]));
    read_common(options, kTag, args);
    args.no_retry = to_flag(options[kRetry], "retry") ? 0 : 1;
    args.up = static_cast<lockstep_wire_format>(py::cast<unsigned>(options[kUp]));
    args.down = static_cast<lockstep_wire_format>(py::cast<unsigned>(options[kDown]));
    if (const py::object weight = options[kWeight]; !weight.is_none()) {
      args.weighted = 1;
      args.weight = to_double(weight, "weight");
    }
    args.algorithm = static_cast<lockstep_algorithm>(py::cast<unsigned>(options[kAlgorithm]));
    if (is_list(array)) {
      args.tensors = tensors.data();
      args.tensors_count = tensors.size();
      args.residuals = residuals.empty() ? nullptr : residuals.data();
    } else {
      args.send = tensors.front().send;
      args.recv = tensors.front().recv;
      args.count = tensors.front().count;
      args.residual = residuals.empty() ? nullptr : residuals.front();
    }
  }

  void add_residuals(const py::object& residual, bool many) {
    if (residual.is_none()) return;
    if (is_list(residual) != many) raise_invalid("residual: give one array for one, or a list for a list");
    py::list given;
    if (many) {
      given = py::reinterpret_steal<py::list>(PySequence_List(residual.ptr()));
    } else {
      given.append(residual);
    }
    if (given.size() != tensors.size()) {
      raise_invalid("residual holds " + std::to_string(given.size()) + " arrays, array holds " +
                    std::to_string(tensors.size()) + ": give one for each, or None in its place");
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (py::object(given[i]).is_none()) {
        residuals.push_back(nullptr);
        continue;
      }
      const std::string name = many ? "residual[" + std::to_string(i) + "]" : "residual";
      Array array(py::object(given[i]), name, Array::Access::kWrite);
      same_shape(loans.arrays[i], array, "array", name);
      residuals.push_back(array.data());
      loans.arrays.push_back(std::move(array));
    }
  }
};

struct ReduceScatter {
  lockstep_reduce_scatter_args args = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  Loans loans;

  // `options`: (op, tag, timeout, minimum_world)
  ReduceScatter(const py::object& array, const py::object& out, const py::tuple& options) {
    const Array& send = loans.arrays.emplace_back(array, "array", Array::Access::kRead);
    args.send = send.data();
    args.count = send.count();
    args.type = send.type();
    const Array& recv = loans.arrays.emplace_back(out, "out", Array::Access::kWrite);
    same_type(args.type, recv.type());
    args.recv = recv.data();
    args.recv_capacity = recv.count();
    args.op = static_cast<lockstep_op>(py::cast<unsigned>(options[0]));
    read_common(options, 1, args);
  }
};

struct AllGather {
  lockstep_all_gather_args args = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  Loans loans;

  // `options`: (tag, timeout, minimum_world)
  AllGather(const py::object& array, const py::object& out, const py::tuple& options) {
    const Array& send = loans.arrays.emplace_back(array, "array", Array::Access::kRead);
    args.send = send.data();
    args.send_count = send.count();
    args.type = send.type();
    const Array& recv = loans.arrays.emplace_back(out, "out", Array::Access::kWrite);
    same_type(args.type, recv.type());
    if (recv.count() < args.send_count) {
      raise_invalid("out has room for " + std::to_string(recv.count()) + " elements, array alone has " +
                    std::to_string(args.send_count) + ": give it room for those of all members");
    }
    args.recv = recv.data();
    args.recv_capacity = recv.count();
    read_common(options, 0, args);
  }
};

struct Reduce {
  lockstep_reduce_args args = LOCKSTEP_REDUCE_ARGS_INIT;
  std::vector<lockstep_tensor> tensors;
  Loans loans;

  // `out`: None except on the root. `options`: (op, tag, timeout, minimum_world)
  Reduce(const py::object& array, const py::object& out, const py::object& root, const py::tuple& options) {
    loans.arrays = arrays_of(array, "array", Array::Access::kRead);
    for (const Array& one : loans.arrays) tensors.push_back({one.data(), nullptr, one.count()});
    args.type = tensors.empty() ? LOCKSTEP_F32 : loans.arrays.front().type();
    args.root = to_peer_id(root);
    if (!out.is_none()) {
      std::vector<Array> results = arrays_of(out, "out", Array::Access::kWrite);
      if (results.size() != tensors.size()) {
        raise_invalid("out has " + std::to_string(results.size()) + " arrays, array has " +
                      std::to_string(tensors.size()) + ": they must be equal");
      }
      for (std::size_t i = 0; i < results.size(); ++i) {
        same_shape(loans.arrays[i], results[i], "array", "out");
        tensors[i].recv = results[i].data();
      }
      for (Array& one : results) loans.arrays.push_back(std::move(one));
    }
    if (is_list(array)) {
      args.tensors = tensors.data();
      args.tensors_count = tensors.size();
    } else {
      args.send = tensors.front().send;
      args.recv = tensors.front().recv;
      args.count = tensors.front().count;
    }
    args.op = static_cast<lockstep_op>(py::cast<unsigned>(options[0]));
    read_common(options, 1, args);
  }
};

struct Gather {
  lockstep_gather_args args = LOCKSTEP_GATHER_ARGS_INIT;
  Loans loans;

  // `out`: None except on the root. `options`: (tag, timeout, minimum_world)
  Gather(const py::object& array, const py::object& out, const py::object& root, const py::tuple& options) {
    const Array& send = loans.arrays.emplace_back(array, "array", Array::Access::kRead);
    args.send = send.data();
    args.send_count = send.count();
    args.type = send.type();
    args.root = to_peer_id(root);
    if (!out.is_none()) {
      const Array& recv = loans.arrays.emplace_back(out, "out", Array::Access::kWrite);
      same_type(args.type, recv.type());
      args.recv = recv.data();
      args.recv_capacity = recv.count();
    }
    read_common(options, 0, args);
  }
};

// A scatter or an all-to-all: `array`, which is None where a scatter has another root, is cut into blocks.
template <typename Args>
struct Blocks {
  Args args{};
  std::vector<lockstep_block> blocks;
  Loans loans;

  // `receivers`: pairs of a peer id and a number of elements. `options`: (tag, timeout, minimum_world)
  Blocks(Args init, const py::object& array, const py::object& out, const py::list& receivers, const py::tuple& options)
      : args(init) {
    const Array& recv = loans.arrays.emplace_back(out, "out", Array::Access::kWrite);
    args.recv = recv.data();
    args.recv_capacity = recv.count();
    args.type = recv.type();
    for (const py::handle& each : receivers) {
      const auto pair = py::reinterpret_borrow<py::tuple>(each);
      blocks.push_back({to_peer_id(pair[0]), py::cast<std::uint64_t>(pair[1])});
    }
    if (!array.is_none()) {
      const Array& send = loans.arrays.emplace_back(array, "array", Array::Access::kRead);
      same_type(send.type(), args.type);
      args.send = send.data();
    }
    args.blocks = blocks.data();
    args.blocks_count = blocks.size();
    read_common(options, 0, args);
  }
};

Blocks<lockstep_scatter_args> scatter_of(const py::object& array, const py::object& out, const py::object& root,
                                         const py::list& receivers, const py::tuple& options) {
  lockstep_scatter_args args = LOCKSTEP_SCATTER_ARGS_INIT;
  args.root = to_peer_id(root);
  return {args, array, out, receivers, options};
}

Blocks<lockstep_all_to_all_args> all_to_all_of(const py::object& array, const py::object& out,
                                               const py::list& receivers, const py::tuple& options) {
  return {LOCKSTEP_ALL_TO_ALL_ARGS_INIT, array, out, receivers, options};
}

struct Broadcast {
  lockstep_broadcast_args args = LOCKSTEP_BROADCAST_ARGS_INIT;
  std::vector<lockstep_tensor> tensors;
  Loans loans;

  // `options`: (tag, timeout, minimum_world)
  Broadcast(const py::object& array, const py::object& root, bool is_root, const py::tuple& options) {
    loans.arrays = arrays_of(array, "array", is_root ? Array::Access::kRead : Array::Access::kWrite);
    for (const Array& one : loans.arrays) tensors.push_back({nullptr, one.data(), one.count()});
    args.type = tensors.empty() ? LOCKSTEP_F32 : loans.arrays.front().type();
    args.root = to_peer_id(root);
    if (is_list(array)) {
      args.tensors = tensors.data();
      args.tensors_count = tensors.size();
    } else {
      args.data = tensors.front().recv;
      args.count = tensors.front().count;
    }
    read_common(options, 0, args);
  }
};

// A send or a recv of one array.
template <typename Args>
struct Transfer {
  Args args;
  Loans loans;

  // `options`: (tag, timeout)
  Transfer(Args fresh, const py::object& array, Array::Access access, const py::tuple& options) : args(fresh) {
    const Array& one = loans.arrays.emplace_back(array, "array", access);
    args.data = one.data();
    args.count = one.count();
    args.type = one.type();
    args.tag = to_number<std::uint64_t>(options[0], "tag");
    args.timeout_ms = milliseconds_of(options[1], "timeout", false);
  }
};

Transfer<lockstep_send_args> send_of(const py::object& array, const py::object& to, const py::tuple& options) {
  Transfer<lockstep_send_args> call(LOCKSTEP_SEND_ARGS_INIT, array, Array::Access::kRead, options);
  call.args.to = to_peer_id(to);
  return call;
}

// `source`: None for any member.
Transfer<lockstep_recv_args> recv_of(const py::object& array, const py::object& source, const py::tuple& options) {
  Transfer<lockstep_recv_args> call(LOCKSTEP_RECV_ARGS_INIT, array, Array::Access::kWrite, options);
  if (!source.is_none()) call.args.from = to_peer_id(source);
  return call;
}

// `options`: (tag, timeout, minimum_world, retry)
lockstep_barrier_args barrier_args(const py::tuple& options) {
  lockstep_barrier_args args = LOCKSTEP_BARRIER_ARGS_INIT;
  read_common(options, 0, args);
  args.no_retry = to_flag(options[3], "retry") ? 0 : 1;
  return args;
}

Communicator& from(const py::object& self) { return self.cast<Communicator&>(); }

void define_exchanges(py::class_<Communicator>& c) {
  c.def("gather", [](Communicator& self, const py::object& array, const py::object& out, const py::object& root,
                     const py::tuple& options) {
    auto call = self.reading("gather", options[0], [&] { return Gather(array, out, root, options); });
    return self.run(&lockstep_gather, call.args, std::move(call.loans));
  });
  c.def("gather_async", [](const py::object& self, const py::object& array, const py::object& out,
                           const py::object& root, const py::tuple& options) {
    auto call = from(self).reading("gather", options[0], [&] { return Gather(array, out, root, options); });
    return from(self).start(&lockstep_gather_async, call.args, std::move(call.loans), self);
  });
  c.def("scatter", [](Communicator& self, const py::object& array, const py::object& out, const py::object& root,
                      const py::list& receivers, const py::tuple& options) {
    auto call = self.reading("scatter", options[0], [&] { return scatter_of(array, out, root, receivers, options); });
    return self.run(&lockstep_scatter, call.args, std::move(call.loans));
  });
  c.def("scatter_async", [](const py::object& self, const py::object& array, const py::object& out,
                            const py::object& root, const py::list& receivers, const py::tuple& options) {
    auto call =
        from(self).reading("scatter", options[0], [&] { return scatter_of(array, out, root, receivers, options); });
    return from(self).start(&lockstep_scatter_async, call.args, std::move(call.loans), self);
  });
  c.def("all_to_all", [](Communicator& self, const py::object& array, const py::object& out, const py::list& receivers,
                         const py::tuple& options) {
    auto call = self.reading("all_to_all", options[0], [&] { return all_to_all_of(array, out, receivers, options); });
    return self.run(&lockstep_all_to_all, call.args, std::move(call.loans));
  });
  c.def("all_to_all_async", [](const py::object& self, const py::object& array, const py::object& out,
                               const py::list& receivers, const py::tuple& options) {
    auto call =
        from(self).reading("all_to_all", options[0], [&] { return all_to_all_of(array, out, receivers, options); });
    return from(self).start(&lockstep_all_to_all_async, call.args, std::move(call.loans), self);
  });
}

void define_collectives(py::class_<Communicator>& c) {
  c.def("refuse", [](Communicator& self, const py::object& operation, const py::object& tag, const py::object& why) {
    self.refuse(to_utf8(operation, "operation"), tag, py::cast<std::string>(py::str(why)));
  });
  c.def("all_reduce", [](Communicator& self, const py::object& array, const py::object& out, const py::object& residual,
                         const py::tuple& options) {
    auto call = self.reading("all_reduce", options[kTag], [&] { return AllReduce(array, out, residual, options); });
    return self.run(&lockstep_all_reduce, call.args, std::move(call.loans));
  });
  c.def("all_reduce_async", [](const py::object& self, const py::object& array, const py::object& out,
                               const py::object& residual, const py::tuple& options) {
    auto call =
        from(self).reading("all_reduce", options[kTag], [&] { return AllReduce(array, out, residual, options); });
    return from(self).start(&lockstep_all_reduce_async, call.args, std::move(call.loans), self);
  });
  c.def("reduce_scatter",
        [](Communicator& self, const py::object& array, const py::object& out, const py::tuple& options) {
          auto call = self.reading("reduce_scatter", options[1], [&] { return ReduceScatter(array, out, options); });
          return self.run(&lockstep_reduce_scatter, call.args, std::move(call.loans));
        });
  c.def("reduce_scatter_async", [](const py::object& self, const py::object& array, const py::object& out,
                                   const py::tuple& options) {
    auto call = from(self).reading("reduce_scatter", options[1], [&] { return ReduceScatter(array, out, options); });
    return from(self).start(&lockstep_reduce_scatter_async, call.args, std::move(call.loans), self);
  });
  c.def("all_gather", [](Communicator& self, const py::object& array, const py::object& out, const py::tuple& options) {
    auto call = self.reading("all_gather", options[0], [&] { return AllGather(array, out, options); });
    return self.run(&lockstep_all_gather, call.args, std::move(call.loans));
  });
  c.def("all_gather_async",
        [](const py::object& self, const py::object& array, const py::object& out, const py::tuple& options) {
          auto call = from(self).reading("all_gather", options[0], [&] { return AllGather(array, out, options); });
          return from(self).start(&lockstep_all_gather_async, call.args, std::move(call.loans), self);
        });
  c.def("reduce", [](Communicator& self, const py::object& array, const py::object& out, const py::object& root,
                     const py::tuple& options) {
    auto call = self.reading("reduce", options[1], [&] { return Reduce(array, out, root, options); });
    return self.run(&lockstep_reduce, call.args, std::move(call.loans));
  });
  c.def("reduce_async", [](const py::object& self, const py::object& array, const py::object& out,
                           const py::object& root, const py::tuple& options) {
    auto call = from(self).reading("reduce", options[1], [&] { return Reduce(array, out, root, options); });
    return from(self).start(&lockstep_reduce_async, call.args, std::move(call.loans), self);
  });
  c.def("broadcast", [](Communicator& self, const py::object& array, const py::object& root, bool is_root,
                        const py::tuple& options) {
    auto call = self.reading("broadcast", options[0], [&] { return Broadcast(array, root, is_root, options); });
    return self.run(&lockstep_broadcast, call.args, std::move(call.loans));
  });
  c.def("broadcast_async", [](const py::object& self, const py::object& array, const py::object& root, bool is_root,
                              const py::tuple& options) {
    auto call = from(self).reading("broadcast", options[0], [&] { return Broadcast(array, root, is_root, options); });
    return from(self).start(&lockstep_broadcast_async, call.args, std::move(call.loans), self);
  });
  c.def("barrier", [](Communicator& self, const py::tuple& options) {
    const auto args = self.reading("barrier", options[0], [&] { return barrier_args(options); });
    return self.run(&lockstep_barrier, args, {});
  });
  c.def("barrier_async", [](const py::object& self, const py::tuple& options) {
    const auto args = from(self).reading("barrier", options[0], [&] { return barrier_args(options); });
    return from(self).start(&lockstep_barrier_async, args, {}, self);
  });
}

// ---- point to point ----

// Begins a send or a recv of a group of torch: of one plain tensor, by ranks. Such calls are small and many. Nothing if
// the call is not plain: then nothing has begun. `members`: peer ids. `options`: (tag, timeout)
template <typename Args>
std::optional<std::shared_ptr<Work>> begin_plain(const py::object& communicator, const py::object& tensors,
                                                 const py::list& members, std::int64_t rank, const py::tuple& options,
                                                 Args args, lockstep_peer_id Args::*partner,
                                                 lockstep_status (*function)(lockstep_comm*, const Args*,
                                                                             lockstep_work**)) {
  if (PyList_Check(tensors.ptr()) == 0 || PyList_GET_SIZE(tensors.ptr()) != 1) return std::nullopt;
  if (rank < 0 || rank >= PyList_GET_SIZE(members.ptr())) return std::nullopt;
  auto array = Array::of_plain_tensor(PyList_GET_ITEM(tensors.ptr(), 0));
  if (!array) return std::nullopt;
  args.*partner = to_peer_id(PyList_GET_ITEM(members.ptr(), rank));
  args.data = array->data();
  args.count = array->count();
  args.type = array->type();
  args.tag = to_number<std::uint64_t>(options[0], "tag");
  args.timeout_ms = milliseconds_of(options[1], "timeout", false);
  Loans loans;
  loans.arrays.push_back(*std::move(array));
  return from(communicator).start(function, args, std::move(loans), communicator, Call::Return::kOnceSeen);
}

void define_transfers(py::class_<Communicator>& c) {
  c.def("send", [](Communicator& self, const py::object& array, const py::object& to, const py::tuple& options) {
    auto call = send_of(array, to, options);
    return self.run(&lockstep_send, call.args, std::move(call.loans));
  });
  c.def("send_async",
        [](const py::object& self, const py::object& array, const py::object& to, const py::tuple& options) {
          auto call = send_of(array, to, options);
          return from(self).start(&lockstep_send_async, call.args, std::move(call.loans), self);
        });
  c.def("recv", [](Communicator& self, const py::object& array, const py::object& source, const py::tuple& options) {
    auto call = recv_of(array, source, options);
    return self.run(&lockstep_recv, call.args, std::move(call.loans));
  });
  c.def("recv_async",
        [](const py::object& self, const py::object& array, const py::object& source, const py::tuple& options) {
          auto call = recv_of(array, source, options);
          return from(self).start(&lockstep_recv_async, call.args, std::move(call.loans), self);
        });
  c.def("send_plain", [](const py::object& self, const py::object& tensors, const py::list& members, std::int64_t rank,
                         const py::tuple& options) {
    return begin_plain<lockstep_send_args>(self, tensors, members, rank, options, LOCKSTEP_SEND_ARGS_INIT,
                                           &lockstep_send_args::to, &lockstep_send_async);
  });
  c.def("recv_plain", [](const py::object& self, const py::object& tensors, const py::list& members, std::int64_t rank,
                         const py::tuple& options) {
    return begin_plain<lockstep_recv_args>(self, tensors, members, rank, options, LOCKSTEP_RECV_ARGS_INIT,
                                           &lockstep_recv_args::from, &lockstep_recv_async);
  });
}

// ---- membership ----

void define_membership(py::class_<Communicator>& c) {
  c.def("connect", [](Communicator& self, const py::object& coordinator, const py::object& timeout) {
    const std::string address = to_utf8(coordinator, "coordinator");
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    self.wait_for([&](lockstep_comm* comm) { return lockstep_connect(comm, address.c_str(), ms); });
  });
  c.def("connect_async", [](const py::object& self, const py::object& coordinator, const py::object& timeout) {
    const std::string address = to_utf8(coordinator, "coordinator");
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Communicator& to = from(self);
    return to.start_with(
        [&](lockstep_work** work) { return lockstep_connect_async(to.comm(), address.c_str(), ms, work); }, {}, self);
  });
  c.def("admit", [](Communicator& self, const py::object& timeout) {
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Loans none;
    return block(none, [&](lockstep_result* result) { return lockstep_admit(self.comm(), ms, result); });
  });
  c.def("admit_async", [](const py::object& self, const py::object& timeout) {
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Communicator& to = from(self);
    return to.start_with([&](lockstep_work** work) { return lockstep_admit_async(to.comm(), ms, work); }, {}, self);
  });
  c.def("wait_for_world", [](Communicator& self, const py::object& members, const py::object& timeout) {
    const auto at_least = to_number<std::uint32_t>(members, "members");
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Loans none;
    return block(none,
                 [&](lockstep_result* result) { return lockstep_wait_for_world(self.comm(), at_least, ms, result); });
  });
  c.def("wait_for_world_async", [](const py::object& self, const py::object& members, const py::object& timeout) {
    const auto at_least = to_number<std::uint32_t>(members, "members");
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Communicator& to = from(self);
    return to.start_with(
        [&](lockstep_work** work) { return lockstep_wait_for_world_async(to.comm(), at_least, ms, work); }, {}, self);
  });
  c.def("leave", [](Communicator& self, const py::object& timeout) {
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    self.wait_for([&](lockstep_comm* comm) { return lockstep_leave(comm, ms); });
  });
  c.def("leave_async", [](const py::object& self, const py::object& timeout) {
    const std::int64_t ms = milliseconds_of(timeout, "timeout", false);
    Communicator& to = from(self);
    return to.start_with([&](lockstep_work** work) { return lockstep_leave_async(to.comm(), ms, work); }, {}, self);
  });
  c.def("abort_all", [](Communicator& self, const py::object& why) {
    const std::string text = to_utf8(why, "why");
    self.wait_for([&](lockstep_comm* comm) { return lockstep_abort_all(comm, text.c_str()); });
  });
  c.def("close", &Communicator::close);
  c.def("flight_record", [](Communicator& self, const py::object& path) {
    const std::string file = to_path(path, "path");
    self.wait_for([&](lockstep_comm* comm) { return lockstep_flight_record(comm, file.c_str()); });
  });
}

// ---- the run as this peer sees it ----

void define_world(py::class_<Communicator>& c) {
  c.def("pending", [](Communicator& self) {
    std::uint32_t count = 0;
    checked([&] { return lockstep_pending(self.comm(), &count); });
    return count;
  });
  c.def("agree_pending", [](Communicator& self, const py::object& room, const py::object& timeout) {
    const py::int_ tag(std::numeric_limits<std::uint64_t>::max());
    const std::int64_t ms =
        self.reading("agree_pending", tag, [&] { return milliseconds_of(timeout, "timeout", false); });
    Loans loans;
    loans.arrays.emplace_back(room, "room", Array::Access::kWrite);
    auto* const count = static_cast<std::uint32_t*>(loans.arrays.front().data());
    block(loans, [&](lockstep_result*) { return lockstep_agree_pending(self.comm(), ms, count); });
    return *count;
  });
  c.def("fetching", [](Communicator& self) {
    std::uint32_t count = 0;
    checked([&] { return lockstep_fetching(self.comm(), &count); });
    return count;
  });
  c.def("holding", [](Communicator& self) {
    std::uint32_t count = 0;
    checked([&] { return lockstep_holding(self.comm(), &count); });
    return count;
  });
  c.def("stage", [](Communicator& self) {
    lockstep_stage stage = LOCKSTEP_STAGE_NEW;
    self.wait_for([&](lockstep_comm* comm) { return lockstep_stage_get(comm, &stage); });
    return static_cast<int>(stage);
  });
  c.def("id", [](Communicator& self) { return to_python(self.id()); });
  c.def("world", [](Communicator& self) {
    lockstep_world world = LOCKSTEP_WORLD_INIT;
    checked([&] { return lockstep_world_get(self.comm(), &world); });
    return py::make_tuple(world.view, world.cohort, world.term, to_python(world.self), world.group, world.rank,
                          world.world_size, world.members, world.groups, world.pending);
  });
  c.def("group_sizes", [](Communicator& self) {
    std::vector<lockstep_group_size> sizes(1024);
    std::size_t count = 0;
    checked([&] { return lockstep_group_sizes(self.comm(), sizes.data(), sizes.size(), &count, nullptr); });
    py::dict out;
    for (std::size_t i = 0; i < count; ++i) out[py::int_(sizes[i].group)] = sizes[i].members;
    return out;
  });
  c.def("member_ids", [](Communicator& self, const py::object& group) {
    const auto number = to_number<std::uint32_t>(group, "group");
    std::vector<lockstep_peer_id> ids(1024);
    std::size_t count = 0;
    checked([&] { return lockstep_member_ids(self.comm(), number, ids.data(), ids.size(), &count, nullptr); });
    py::list out;
    for (std::size_t i = 0; i < count; ++i) out.append(to_python(ids[i]));
    return out;
  });
}

// ---- shared state ----

void define_state(py::class_<Communicator>& c) {
  using Function = lockstep_status (*)(lockstep_comm*, const lockstep_sync_state_args*, lockstep_result*);
  using AsyncFunction = lockstep_status (*)(lockstep_comm*, const lockstep_sync_state_args*, lockstep_work**);
  // Only a sync is a round that others may wait for.
  const auto blocking = [&c](const char* name, Function function, bool is_round) {
    c.def(name, [function, is_round](Communicator& self, const py::dict& description, const py::dict& options,
                                     const py::object& taken) {
      const auto read = [&] { return state_args(description, options, Array::Access::kWrite); };
      const auto state = is_round ? self.reading("sync", options["tag"], read) : read();
      Loans loans;
      loans.state = state;
      loans.taken = taken;
      return self.run(function, state->args, std::move(loans));
    });
  };
  const auto asynchronous = [&c](const char* name, AsyncFunction function, Array::Access access, bool is_round) {
    c.def(name, [=](const py::object& self, const py::dict& description, const py::dict& options) {
      const auto read = [&] { return state_args(description, options, access); };
      const auto state = is_round ? from(self).reading("sync", options["tag"], read) : read();
      Loans loans;
      loans.state = state;
      return from(self).start(function, state->args, std::move(loans), self);
    });
  };
  blocking("sync_state", &lockstep_sync_state, true);
  blocking("prefetch_state", &lockstep_prefetch_state, false);
  asynchronous("sync_state_async", &lockstep_sync_state_async, Array::Access::kWrite, true);
  asynchronous("prefetch_state_async", &lockstep_prefetch_state_async, Array::Access::kWrite, false);
  asynchronous("publish_state_async", &lockstep_publish_state_async, Array::Access::kRead, false);
  c.def("publish_state", [](Communicator& self, const py::dict& description, const py::dict& options) {
    const auto state = state_args(description, options, Array::Access::kRead);
    self.wait_for([&](lockstep_comm* comm) { return lockstep_publish_state(comm, &state->args); });
    self.keep_published(state->args.tag, state->args.stable != 0 ? state : nullptr);
  });
  c.def("unpublish_state", [](Communicator& self, const py::object& tag) {
    const auto number = to_number<std::uint64_t>(tag, "tag");
    self.wait_for([&](lockstep_comm* comm) { return lockstep_unpublish_state(comm, number); });
    self.keep_published(number, nullptr);
  });
  c.def("watch_state", [](Communicator& self, const py::object& description, const py::dict& options) {
    if (description.is_none()) return self.watch(nullptr);
    self.watch(state_args(description, options, Array::Access::kRead));
  });
}

}  // namespace

void define_communicator(py::module_& module) {
  py::class_<Communicator> c(module, "Communicator");
  c.def(py::init([](const HandlePtr& handle) { return std::make_unique<Communicator>(handle); }));
  c.def(py::init([](const py::dict& options) {
    return std::make_unique<Communicator>(make_handle(
        options, Handle::End::kOnAThread,
        [](const lockstep_comm_options& from, lockstep_comm** comm) { return lockstep_comm_create(&from, comm); }));
  }));
  define_membership(c);
  define_world(c);
  define_collectives(c);
  define_exchanges(c);
  define_transfers(c);
  define_state(c);
}

}  // namespace lockstep::python
