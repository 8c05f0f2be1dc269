// Opens and closes a region of code that may use more instructions than the build's baseline, for
// GCC and Clang. Standard headers must be included before a region opens; everything inside lies in
// a namespace of its own, so that no inline function exists in two versions under one name.
#pragma once

#define MUNIA_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define MUNIA_TARGET_BEGIN(features) \
  MUNIA_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define MUNIA_TARGET_END MUNIA_PRAGMA(clang attribute pop)
#define MUNIA_UNROLL MUNIA_PRAGMA(unroll)
#else
#define MUNIA_TARGET_BEGIN(features) \
  MUNIA_PRAGMA(GCC push_options)     \
  MUNIA_PRAGMA(GCC target(features))
#define MUNIA_TARGET_END MUNIA_PRAGMA(GCC pop_options)
#define MUNIA_UNROLL MUNIA_PRAGMA(GCC unroll 16)
#endif
// For the small functions whose vectors must stay in registers.
#define MUNIA_INLINE inline __attribute__((always_inline))
