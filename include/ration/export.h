/* Marks symbols that libration exports. All others are hidden (see src/libration.map). */
#ifndef RATION_EXPORT_H
#define RATION_EXPORT_H

#define RATION_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define RATION_C_BEGIN extern "C" {
#define RATION_C_END   }
#else
#define RATION_C_BEGIN
#define RATION_C_END
#endif

#endif
