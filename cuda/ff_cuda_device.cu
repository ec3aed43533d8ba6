#include "ff_cuda_net.cuh"

#include "ff_cuda_device.h"

#include <string.h>

#include <map>
#include <mutex>

ff_status ff_cuda_device_uuid(int device, char uuid[16])
{
    ff_status st = FF_OK;
    cudaDeviceProp p;
    FF_CU(cudaGetDeviceProperties(&p, device));
    memcpy(uuid, p.uuid.bytes, 16);
done:
    return st;
}

cudaError_t ff_cuda_shared(const void *kernel, int bytes)
{
    static std::mutex lock;
    static std::map<std::pair<const void *, int>, int> most;
    int device = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e != cudaSuccess) return e;
    std::lock_guard<std::mutex> guard(lock);
    int &have = most[{kernel, device}];
    if (bytes > have) e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess && bytes > have) have = bytes;
    return e;
}
