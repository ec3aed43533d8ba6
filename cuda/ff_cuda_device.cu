#include "ff_cuda_net.cuh"

#include "ff_cuda_device.h"

#include <string.h>

ff_status ff_cuda_device_uuid(int device, char uuid[16])
{
    ff_status st = FF_OK;
    cudaDeviceProp p;
    FF_CU(cudaGetDeviceProperties(&p, device));
    memcpy(uuid, p.uuid.bytes, 16);
done:
    return st;
}
