/* Which GPU a device number means. Includes no CUDA header. */
#ifndef FF_CUDA_DEVICE_H
#define FF_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "ff_status.h"

/* The GPU's own number, the same in every process whatever CUDA_VISIBLE_DEVICES says. Local */
ff_status ff_cuda_device_uuid(int device, char uuid[16]);

#ifdef __cplusplus
}
#endif
#endif
