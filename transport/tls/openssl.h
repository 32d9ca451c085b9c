// OpenSSL's objects as values with an owner, and its errors as text.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace lockstep::transport::tls {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
struct FreeCertificates {
  void operator()(STACK_OF(X509) * list) const { sk_X509_pop_free(list, X509_free); }
};
using CertificatesPtr = std::unique_ptr<STACK_OF(X509), FreeCertificates>;
using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using SslPtr = std::unique_ptr<SSL, Freed<SSL_free>>;

// Prepares the library once. Its handlers at the exit of the process are left out: other threads of a Python program
// may still use it then.
void begin_openssl();

// The oldest error of this thread's queue, in words, which is then empty; empty text: none.
std::string take_error();

// Throws std::bad_alloc: OpenSSL has refused an operation that fails only for lack of memory.
void require(bool done);

}  // namespace lockstep::transport::tls
