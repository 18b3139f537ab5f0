// AES-256-GCM over pieces of bytes: OpenSSL's, whose functions are called here alone.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "trust/openssl.h"

namespace square::trust {

inline constexpr std::size_t kGcmKeyBytes = 32;
inline constexpr std::size_t kGcmNonceBytes = 12;
inline constexpr std::size_t kSealTagBytes = 16;

using GcmKey = std::span<const std::byte, kGcmKeyBytes>;
using GcmNonce = std::array<std::byte, kGcmNonceBytes>;

// Aborts where OpenSSL cannot seal. No nonce may come twice under a key.
class GcmSeal {
 public:
  GcmSeal(GcmKey key, const GcmNonce& nonce);
  // `out` has room for as many bytes.
  void add(std::span<const std::byte> piece, std::byte* out);
  // Writes kSealTagBytes.
  void finish(std::byte* tag);

 private:
  CipherContextPtr context_;
  bool is_good_;
};

class GcmOpening {
 public:
  GcmOpening(GcmKey key, const GcmNonce& nonce);
  // What is written to `out`, as many bytes, is not to be used before finish() has found it good.
  void add(std::span<const std::byte> piece, std::byte* out);
  // Whether this is what was sealed, with a tag of kSealTagBytes.
  [[nodiscard]] bool finish(const std::byte* tag);

 private:
  CipherContextPtr context_;
  bool is_good_;
};

}  // namespace square::trust
