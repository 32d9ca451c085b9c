/* Names and versions that the library reports; unknown numbers have names, too. */
#include "check.h"

static void the_version_matches_the_header(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", LOCKSTEP_VERSION_MAJOR, LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH);
  CHECK(strcmp(text, LOCKSTEP_VERSION_STRING) == 0);
  CHECK(strcmp(text, lockstep_version_string()) == 0);
  CHECK(strcmp(text, PROJECT_VERSION) == 0); /* as in CMake */
}

static void every_status_has_a_name(void) {
  int number;
  for (number = LOCKSTEP_OK; number <= LOCKSTEP_ERR_STATE_CONFLICT; ++number) {
    const char* name = lockstep_status_string((lockstep_status)number);
    CHECK(name[0] != '\0');
    CHECK(strcmp(name, "unknown status") != 0);
  }
  CHECK(strcmp(lockstep_status_string(LOCKSTEP_OK), "ok") == 0);
  CHECK(strcmp(lockstep_status_string(LOCKSTEP_ERR_PEER_LOST), "peer lost") == 0);
  CHECK(strcmp(lockstep_status_string(LOCKSTEP_ERR_FORKED), "forked") == 0);
  CHECK(strcmp(lockstep_status_string((lockstep_status)(LOCKSTEP_ERR_FORKED + 1)), "unknown status") == 0);
  CHECK(strcmp(lockstep_status_string(LOCKSTEP_ERR_PENDING), "pending") == 0);
  CHECK(strcmp(lockstep_status_string(LOCKSTEP_ERR_INTERRUPTED), "interrupted") == 0);
  CHECK(strcmp(lockstep_status_string((lockstep_status)(LOCKSTEP_ERR_STATE_CONFLICT + 1)), "unknown status") == 0);
  CHECK(strcmp(lockstep_status_string((lockstep_status)-1), "unknown status") == 0);
}

static void types_operations_and_formats_have_names(void) {
  static const char* const names[] = {"u8",  "i8",  "u16",  "i16", "u32", "i32", "u64",
                                      "i64", "f16", "bf16", "f32", "f64", "bool"};
  static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1};
  static const char* const ops[] = {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"};
  static const char* const formats[] = {"native",       "bf16",          "f16",  "int8",
                                        "int8-min-max", "int8-codebook", "int4", "e3m0"};
  static const char* const algorithms[] = {"auto", "ring", "direct", "grid"};
  int number;
  for (number = LOCKSTEP_U8; number <= LOCKSTEP_BOOL; ++number) {
    CHECK(strcmp(lockstep_data_type_name((lockstep_data_type)number), names[number]) == 0);
    CHECK(lockstep_data_type_size((lockstep_data_type)number) == sizes[number]);
  }
  CHECK(strcmp(lockstep_data_type_name((lockstep_data_type)13), "unknown") == 0);
  CHECK(lockstep_data_type_size((lockstep_data_type)13) == 0);
  for (number = LOCKSTEP_SUM; number <= LOCKSTEP_BXOR; ++number) {
    CHECK(strcmp(lockstep_op_name((lockstep_op)number), ops[number]) == 0);
  }
  CHECK(strcmp(lockstep_op_name((lockstep_op)77), "unknown") == 0);
  for (number = LOCKSTEP_WIRE_NATIVE; number <= LOCKSTEP_WIRE_E3M0; ++number) {
    CHECK(strcmp(lockstep_wire_format_name((lockstep_wire_format)number), formats[number]) == 0);
  }
  CHECK(strcmp(lockstep_wire_format_name((lockstep_wire_format)8), "unknown") == 0);
  for (number = LOCKSTEP_ALGORITHM_AUTO; number <= LOCKSTEP_ALGORITHM_GRID; ++number) {
    CHECK(strcmp(lockstep_algorithm_name((lockstep_algorithm)number), algorithms[number]) == 0);
  }
  CHECK(strcmp(lockstep_algorithm_name((lockstep_algorithm)4), "unknown") == 0);
}

int main(void) {
  CHECK(strcmp(lockstep_last_error(), "") == 0);
  the_version_matches_the_header();
  every_status_has_a_name();
  types_operations_and_formats_have_names();
  CHECK(strcmp(lockstep_last_error(), "") == 0);
  return 0;
}
