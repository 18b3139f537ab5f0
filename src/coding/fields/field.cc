#include "coding/fields/field.h"

#include "base/check.h"
#include "coding/fields/float_field.h"
#include "coding/fields/galois_field.h"

namespace square {

const Field& field_of(FieldKind kind) {
  static const GaloisField<std::uint8_t> gf256(fastest_instruction_set());
  static const GaloisField<std::uint16_t> gf65536(fastest_instruction_set());
  static const FloatField float32(fastest_instruction_set());
  switch (kind) {
    case FieldKind::kGf256: return gf256;
    case FieldKind::kGf65536: return gf65536;
    case FieldKind::kFloat32: return float32;
  }
  SQUARE_CHECK(false, "there are three fields");
}

}  // namespace square
