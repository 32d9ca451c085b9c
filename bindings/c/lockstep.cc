// Information about the library: version, statuses, types, operations.
#include "lockstep.h"

#include "bindings/c/error.h"
#include "core/base/data_type.h"
#include "core/base/status.h"
#include "core/wire/message.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it

// The C API and core use the same numbers; these assertions check them.
static_assert(c::to_c(Status::kOk) == LOCKSTEP_OK);
static_assert(c::to_c(Status::kInvalidArgument) == LOCKSTEP_ERR_INVALID_ARGUMENT);
static_assert(c::to_c(Status::kMismatch) == LOCKSTEP_ERR_MISMATCH);
static_assert(c::to_c(Status::kPeerLost) == LOCKSTEP_ERR_PEER_LOST);
static_assert(c::to_c(Status::kWorldChanged) == LOCKSTEP_ERR_WORLD_CHANGED);
static_assert(c::to_c(Status::kBelowMinimum) == LOCKSTEP_ERR_BELOW_MINIMUM);
static_assert(c::to_c(Status::kAborted) == LOCKSTEP_ERR_ABORTED);
static_assert(c::to_c(Status::kTimedOut) == LOCKSTEP_ERR_TIMED_OUT);
static_assert(c::to_c(Status::kCohortClosed) == LOCKSTEP_ERR_COHORT_CLOSED);
static_assert(c::to_c(Status::kOutcomeUnknown) == LOCKSTEP_ERR_OUTCOME_UNKNOWN);
static_assert(c::to_c(Status::kEvicted) == LOCKSTEP_ERR_EVICTED);
static_assert(c::to_c(Status::kNotConnected) == LOCKSTEP_ERR_NOT_CONNECTED);
static_assert(c::to_c(Status::kUnreachable) == LOCKSTEP_ERR_UNREACHABLE);
static_assert(c::to_c(Status::kRefused) == LOCKSTEP_ERR_REFUSED);
static_assert(c::to_c(Status::kTooManyInFlight) == LOCKSTEP_ERR_TOO_MANY_IN_FLIGHT);
static_assert(c::to_c(Status::kBufferTooSmall) == LOCKSTEP_ERR_BUFFER_TOO_SMALL);
static_assert(c::to_c(Status::kOutOfMemory) == LOCKSTEP_ERR_OUT_OF_MEMORY);
static_assert(c::to_c(Status::kProtocolError) == LOCKSTEP_ERR_PROTOCOL);
static_assert(c::to_c(Status::kInternal) == LOCKSTEP_ERR_INTERNAL);
static_assert(c::to_c(Status::kStateUndefined) == LOCKSTEP_ERR_STATE_UNDEFINED);
static_assert(c::to_c(Status::kStateConflict) == LOCKSTEP_ERR_STATE_CONFLICT);
static_assert(kStatusCount == LOCKSTEP_ERR_STATE_CONFLICT + 1);
static_assert(kStatusCount <= LOCKSTEP_ERR_PENDING);  // numbers from here on exist in the C API only

static_assert(static_cast<unsigned>(DataType::kU8) == LOCKSTEP_U8 &&
              static_cast<unsigned>(DataType::kI8) == LOCKSTEP_I8);
static_assert(static_cast<unsigned>(DataType::kU16) == LOCKSTEP_U16 &&
              static_cast<unsigned>(DataType::kI16) == LOCKSTEP_I16);
static_assert(static_cast<unsigned>(DataType::kU32) == LOCKSTEP_U32 &&
              static_cast<unsigned>(DataType::kI32) == LOCKSTEP_I32);
static_assert(static_cast<unsigned>(DataType::kU64) == LOCKSTEP_U64 &&
              static_cast<unsigned>(DataType::kI64) == LOCKSTEP_I64);
static_assert(static_cast<unsigned>(DataType::kF16) == LOCKSTEP_F16 &&
              static_cast<unsigned>(DataType::kBF16) == LOCKSTEP_BF16);
static_assert(static_cast<unsigned>(DataType::kF32) == LOCKSTEP_F32 &&
              static_cast<unsigned>(DataType::kF64) == LOCKSTEP_F64);
static_assert(static_cast<unsigned>(DataType::kBool) == LOCKSTEP_BOOL);
static_assert(kDataTypeCount == LOCKSTEP_BOOL + 1);

static_assert(static_cast<unsigned>(ReduceOp::kSum) == LOCKSTEP_SUM &&
              static_cast<unsigned>(ReduceOp::kAvg) == LOCKSTEP_AVG);
static_assert(static_cast<unsigned>(ReduceOp::kProd) == LOCKSTEP_PROD);
static_assert(static_cast<unsigned>(ReduceOp::kMin) == LOCKSTEP_MIN &&
              static_cast<unsigned>(ReduceOp::kMax) == LOCKSTEP_MAX);
static_assert(static_cast<unsigned>(ReduceOp::kBitAnd) == LOCKSTEP_BAND &&
              static_cast<unsigned>(ReduceOp::kBitOr) == LOCKSTEP_BOR &&
              static_cast<unsigned>(ReduceOp::kBitXor) == LOCKSTEP_BXOR);
static_assert(kReduceOpCount == LOCKSTEP_BXOR + 1);
static_assert(static_cast<unsigned>(WireFormat::kBF16) == LOCKSTEP_WIRE_BF16 &&
              static_cast<unsigned>(WireFormat::kF16) == LOCKSTEP_WIRE_F16 &&
              static_cast<unsigned>(WireFormat::kInt8) == LOCKSTEP_WIRE_INT8 &&
              static_cast<unsigned>(WireFormat::kInt8MinMax) == LOCKSTEP_WIRE_INT8_MIN_MAX &&
              static_cast<unsigned>(WireFormat::kInt8Codebook) == LOCKSTEP_WIRE_INT8_CODEBOOK &&
              static_cast<unsigned>(WireFormat::kInt4) == LOCKSTEP_WIRE_INT4 &&
              static_cast<unsigned>(WireFormat::kE3M0) == LOCKSTEP_WIRE_E3M0);
static_assert(kWireFormatCount == LOCKSTEP_WIRE_E3M0 + 1);

const char* lockstep_version_string(void) { return LOCKSTEP_VERSION_STRING; }

const char* lockstep_status_string(lockstep_status status) {
  const unsigned number = c::number_of(status);
  if (number == LOCKSTEP_ERR_FORKED) return "forked";
  if (number == LOCKSTEP_ERR_PENDING) return "pending";
  if (number == LOCKSTEP_ERR_INTERRUPTED) return "interrupted";
  if (number >= kStatusCount) return "unknown status";
  return status_name(static_cast<Status>(number)).data();  // names are literals: they end with a 0
}

size_t lockstep_data_type_size(lockstep_data_type type) {
  const unsigned number = c::number_of(type);
  return number < kDataTypeCount ? size_of(static_cast<DataType>(number)) : 0;
}

const char* lockstep_data_type_name(lockstep_data_type type) {
  const unsigned number = c::number_of(type);
  return number < kDataTypeCount ? name_of(static_cast<DataType>(number)).data() : "unknown";
}

const char* lockstep_wire_format_name(lockstep_wire_format format) {
  const unsigned number = c::number_of(format);
  return number < kWireFormatCount ? name_of(static_cast<WireFormat>(number)).data() : "unknown";
}

const char* lockstep_algorithm_name(lockstep_algorithm algorithm) {
  const unsigned number = c::number_of(algorithm);
  if (number > wire::kAlgorithmCount) return "unknown";
  return number == 0 ? "auto" : name_of(static_cast<wire::Algorithm>(number - 1)).data();
}

const char* lockstep_op_name(lockstep_op op) {
  const unsigned number = c::number_of(op);
  return number < kReduceOpCount ? name_of(static_cast<ReduceOp>(number)).data() : "unknown";
}
