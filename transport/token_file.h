// The coordinator's private key and its run tokens on disk: JSON that only its owner can read and write. Each change
// replaces the whole file, so a reader needs no lock and never sees a part of a change.
//
//   {"version": 1, "private_key": PEM, "key_digest": 64 hexadecimal digits, "addresses": ["host:port"],
//    "tokens": [{"id": 16 digits, "secret": 32 digits, "role": "member", "observer" or "admin", "name": text,
//                "expires": "2026-12-31T00:00:00Z" or null, "max_peers": number or null,
//                "single_use": bool, "used": bool, "revoked": bool}]}
//
// "used" may be missing: it is false.
//
// All errors name the file, and none quotes what it contains.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "transport/tokens.h"

namespace lockstep::transport {

std::string text_of(const TokenFile& file);
// The error says what is wrong and where.
Result<TokenFile> parse_token_file(std::string_view text);

// Refuses a file that others than its owner can read or write.
Result<TokenFile> load_token_file(const std::string& path);

// Creates the file with the value that `make` returns, unless there is a file. Of several processes that do this at
// the same time, one creates the file.
std::optional<Error> create_token_file(const std::string& path, const std::function<Result<TokenFile>()>& make);
// Does so, and loads the file.
Result<TokenFile> load_or_create_token_file(const std::string& path, const std::function<Result<TokenFile>()>& make);

// Loads the file, changes it and saves it, while no other process changes it. If `change` returns an error, the file
// is unchanged. Waits for other processes that change the file. A link stays a link.
std::optional<Error> change_token_file(const std::string& path,
                                       const std::function<std::optional<Error>(TokenFile&)>& change);

// The same without waiting: `kTimedOut` if another process changes the file now.
std::optional<Error> try_change_token_file(const std::string& path,
                                           const std::function<std::optional<Error>(TokenFile&)>& change);

}  // namespace lockstep::transport
