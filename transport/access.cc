#include "transport/access.h"

#include <algorithm>
#include <utility>

#include "transport/address.h"
#include "transport/certificate_access.h"
#include "transport/token_access.h"

namespace lockstep::transport {
namespace {

bool is_of_this_machine_only(const std::vector<io::Address>& hosts) {
  return !hosts.empty() && std::ranges::all_of(hosts, is_loopback);
}

template <typename Kind>
Result<std::unique_ptr<Access>> as_access(Result<std::unique_ptr<Kind>> opened) {
  if (!opened) return opened.error();
  return std::unique_ptr<Access>(std::move(*opened));
}

}  // namespace

Result<std::unique_ptr<Access>> Access::open(AccessOptions options, const std::vector<io::Address>& hosts) {
  const bool by_certificates = !options.certificates.empty();
  if (options.insecure) {
    if (options.token_file.empty() && options.advertised.empty() && !by_certificates) {
      return std::make_unique<Access>(true);
    }
    return Error{Status::kInvalidArgument,
                 "insecure: without TLS there are no run tokens and no certificates; leave one of both out"};
  }
  if (by_certificates) {
    if (options.token_file.empty()) return as_access(CertificateAccess::open(std::move(options.certificates)));
    return Error{Status::kInvalidArgument, "certificates and a token file: use one of both"};
  }
  if (options.token_file.empty() && is_of_this_machine_only(hosts)) return std::make_unique<Access>(false);
  return as_access(TokenAccess::open(std::move(options.token_file), std::move(options.advertised)));
}

}  // namespace lockstep::transport
