#include "transport/tls/aead.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#ifdef LOCKSTEP_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#include "core/base/assert.h"
#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {
namespace {

const std::uint8_t* as_u8(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }
std::uint8_t* as_u8(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

class OpenSslAead final : public Aead {
 public:
  OpenSslAead(Cipher cipher, std::span<const std::byte> key, Use use)
      : context_(EVP_CIPHER_CTX_new()), encrypts_(use == Use::kEncrypt ? 1 : 0) {
    const EVP_CIPHER* const kind = cipher == Cipher::kAes128Gcm ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
    require(context_ != nullptr &&
            EVP_CipherInit_ex(context_.get(), kind, nullptr, as_u8(key.data()), nullptr, encrypts_) == 1);
  }

  void begin(const Nonce& nonce, std::span<const std::byte> bound) override {
    int size = 0;
    require(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, as_u8(nonce.data()), encrypts_) == 1 &&
            EVP_CipherUpdate(context_.get(), nullptr, &size, as_u8(bound.data()), static_cast<int>(bound.size())) == 1);
  }
  void apply(std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    int size = 0;
    require(EVP_CipherUpdate(context_.get(), as_u8(to), &size, as_u8(from.data()), static_cast<int>(from.size())) == 1);
  }
  Tag tag() override {
    Tag tag{};
    int size = 0;
    require(EVP_CipherFinal_ex(context_.get(), as_u8(tag.data()), &size) == 1 &&
            EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1);
    return tag;
  }
  bool verify(const Tag& tag) override {
    Tag shown = tag;
    std::uint8_t nothing = 0;
    int size = 0;
    require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, shown.data()) == 1);
    const bool right = EVP_CipherFinal_ex(context_.get(), &nothing, &size) == 1;
    if (!right) take_error();
    return right;
  }

 private:
  std::unique_ptr<EVP_CIPHER_CTX, Freed<EVP_CIPHER_CTX_free>> context_;
  int encrypts_;
};

#ifdef LOCKSTEP_IPSEC_MB

// The functions for this processor. The library calls such a table a manager; its queues are not used.
const IMB_MGR& functions() {
  static const IMB_MGR* const kFunctions = [] {
    IMB_MGR* const made = alloc_mb_mgr(0);
    require(made != nullptr);
    init_mb_mgr_auto(made, nullptr);
    return made;
  }();
  return *kFunctions;
}

bool has_aes() {
  constexpr std::uint64_t kNeeded = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
  return (functions().features & kNeeded) == kNeeded;
}

class IpsecMbAead final : public Aead {
 public:
  IpsecMbAead(std::span<const std::byte> key, Use use) : encrypts_(use == Use::kEncrypt) {
    IMB_AES128_GCM_PRE(&functions(), key.data(), &key_);
  }
  IpsecMbAead(const IpsecMbAead&) = delete;
  IpsecMbAead& operator=(const IpsecMbAead&) = delete;
  ~IpsecMbAead() override {
    OPENSSL_cleanse(&key_, sizeof(key_));
    OPENSSL_cleanse(&message_, sizeof(message_));
  }

  void begin(const Nonce& nonce, std::span<const std::byte> bound) override {
    IMB_AES128_GCM_INIT(&functions(), &key_, &message_, as_u8(nonce.data()), as_u8(bound.data()), bound.size());
  }
  void apply(std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    if (encrypts_) {
      IMB_AES128_GCM_ENC_UPDATE(&functions(), &key_, &message_, as_u8(to), as_u8(from.data()), from.size());
    } else {
      IMB_AES128_GCM_DEC_UPDATE(&functions(), &key_, &message_, as_u8(to), as_u8(from.data()), from.size());
    }
  }
  Tag tag() override {
    Tag tag{};
    IMB_AES128_GCM_ENC_FINALIZE(&functions(), &key_, &message_, as_u8(tag.data()), tag.size());
    return tag;
  }
  bool verify(const Tag& tag) override {
    Tag right{};
    IMB_AES128_GCM_DEC_FINALIZE(&functions(), &key_, &message_, as_u8(right.data()), right.size());
    return CRYPTO_memcmp(right.data(), tag.data(), right.size()) == 0;
  }

 private:
  alignas(64) gcm_key_data key_{};  // the library wants it so
  alignas(16) gcm_context_data message_{};
  bool encrypts_;
};

#endif

}  // namespace

std::unique_ptr<Aead> Aead::create(Cipher cipher, std::span<const std::byte> key, Use use, Library library) {
  LOCKSTEP_ASSERT(key.size() == key_bytes(cipher));
#ifdef LOCKSTEP_IPSEC_MB
  if (cipher == Cipher::kAes128Gcm && library == Library::kFastest && has_aes()) {
    return std::make_unique<IpsecMbAead>(key, use);
  }
#else
  static_cast<void>(library);
#endif
  return std::make_unique<OpenSslAead>(cipher, key, use);
}

}  // namespace lockstep::transport::tls
